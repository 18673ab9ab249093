import torch


def pad(x, amounts):
    sizes = list(x.shape)
    for i, amount in enumerate(amounts):
        sizes[len(sizes) - 1 - i // 2] += amount
    made = torch.Tensor(sizes, x.dtype)
    made.made_from = [x]
    return made


def convolution(spatial):
    def conv(x, w, bias, stride, padding, dilation, groups):
        assert len(x.shape) == spatial + 2
        torch.said(f"conv{spatial}d {list(x.shape)} strides {list(x.strides)} offset {x.offset} {x.dtype.name} on {x.device} groups {groups} "
                   f"tf32 {torch.backends.cudnn.allow_tf32} benchmark {torch.backends.cudnn.benchmark}")
        made = torch.Tensor(torch.out_sizes(x, w, stride, padding, dilation, groups), x.dtype)
        made.made_from = [x, w]
        return made
    return conv


def transposed(spatial):
    def conv(y, w, bias, stride, padding, output_padding, groups, dilation):
        assert y.shape[1] == w.shape[0] and y.shape[1] % groups == 0
        for more, step, width in zip(output_padding, stride, dilation):
            assert 0 <= more < max(step, width)
        sizes = [y.shape[0], w.shape[1] * groups] + [
            (y.shape[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (w.shape[i + 2] - 1) + output_padding[i] + 1 for i in range(spatial)]
        torch.said(f"conv_transpose{spatial}d {sizes}")
        return torch.Tensor(sizes, y.dtype)
    return conv


conv1d, conv2d, conv3d = convolution(1), convolution(2), convolution(3)
conv_transpose1d, conv_transpose2d, conv_transpose3d = transposed(1), transposed(2), transposed(3)
