// The drawings of a network's report: times of plans, the network with layouts as colours, memory over the steps.
// d3 draws, dagre lays the graph out; #data has the numbers.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const plans = data.plans;
  // The second: one that does something else, if there is one.
  const what = plan => plan.steps.map(step => [step.nodes, step.runs_on, step.writes && step.writes.layout].join()).join("\n");
  const other = plans.findIndex(plan => what(plan) !== what(plans[0]));
  const chosen = {first: 0, second: other > 0 ? other : plans.length - 1, beside: other > 0 && innerWidth > 900};

  const timeText = seconds =>
    seconds >= 1 ? `${seconds.toPrecision(3)} s` : seconds >= 1e-3 ? `${(seconds * 1e3).toPrecision(3)} ms` : `${(seconds * 1e6).toPrecision(3)} us`;
  const bytesText = bytes =>
    bytes >= 2 ** 20 ? `${(bytes / 2 ** 20).toPrecision(3)} MiB` : bytes >= 1024 ? `${(bytes / 1024).toPrecision(3)} KiB` : `${bytes} B`;
  const sideText = side => side ? `${side.type} ${side.dims.join("x")} ${side.layout}` : "-";

  const families = {"row-major": "nchw", "channels-last": "nhwc", blocks: "blocks of channels", other: "other or none", convert: "conversion"};
  function family(side) {
    if (!side || side.dims.length < 3) return "other";
    if (/\d+c$/.test(side.layout)) return "blocks";
    if (/^n[dhw]+c$/.test(side.layout)) return "channels-last";
    return /^nc[dhw]*$/.test(side.layout) ? "row-major" : "other";
  }

  // Text that is no wider than `most`: its end, which tells a name from others, or its beginning.
  const pen = document.createElement("canvas").getContext("2d");
  function fitted(text, most, bold, cut) {
    pen.font = `${bold ? "600 " : ""}12px system-ui,sans-serif`;
    let piece = text, shown = text;
    while (piece.length > 1 && pen.measureText(shown).width > most) {
      piece = cut(piece);
      shown = cut === withoutFirst ? "…" + piece : piece + "…";
    }
    return shown;
  }
  const withoutFirst = text => text.slice(1), withoutLast = text => text.slice(0, -1);
  const ending = (text, most, bold) => fitted(text, most, bold, withoutFirst);
  const beginning = (text, most, bold) => fitted(text, most, bold, withoutLast);

  // "stem.conv +2" of "stem.conv+stem.bn+stem.act".
  function nameOf(step, most) {
    const [first, ...rest] = (step.nodes || step.runs_on).split("+");
    const more = rest.length ? ` +${rest.length}` : "";
    return ending(first, most - 10 * more.length, true) + more;
  }

  // It shrinks where a page of paper is narrower.
  const chart = (place, width, height) => place.append("svg").attr("width", width).attr("height", height)
    .attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img");

  // ---- times of plans ----

  function drawTimes() {
    const place = d3.select("#times");
    place.selectAll("*").remove();
    const rows = plans.map(plan => ({name: plan.name, seconds: plan.seconds, predicted: plan.predicted_seconds}))
      .concat(data.peers.map(peer => ({name: peer.name, seconds: peer.seconds, peer: true})));
    const width = Math.max(280, place.node().clientWidth), left = Math.min(170, width * 0.38), bar = 26, right = 70;
    const height = rows.length * bar + 30;
    const x = d3.scaleLinear([0, d3.max(rows, row => Math.max(row.seconds, row.predicted || 0))], [left, width - right]).nice(4);
    const y = d3.scaleBand(rows.map(row => row.name), [0, rows.length * bar]).padding(0.25);
    const svg = chart(place, width, height)
      .attr("aria-label", "Time of a run with each plan, measured and predicted");
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${rows.length * bar})`)
      .call(d3.axisBottom(x).ticks(width < 500 ? 3 : 6).tickFormat(value => value ? timeText(value) : "0"));
    const row = svg.selectAll("g.row").data(rows).join("g").attr("class", "row").attr("transform", d => `translate(0,${y(d.name)})`);
    row.append("title").text(d => `${d.name}: ${timeText(d.seconds)}${d.predicted ? `, predicted ${timeText(d.predicted)}` : ""}`);
    row.append("text").attr("x", left - 8).attr("y", y.bandwidth() / 2).attr("dy", ".35em").attr("text-anchor", "end")
      .text(d => ending(d.name, left - 14));
    row.append("rect").attr("class", d => d.peer ? "peer" : "measured").attr("x", left).attr("width", d => x(d.seconds) - left)
      .attr("height", y.bandwidth());
    row.filter(d => d.predicted).append("rect").attr("class", "predicted").attr("x", d => x(d.predicted) - 1.5).attr("y", -3)
      .attr("width", 3).attr("height", y.bandwidth() + 6);
    row.append("text").attr("x", d => x(Math.max(d.seconds, d.predicted || 0)) + 6).attr("y", y.bandwidth() / 2).attr("dy", ".35em")
      .text(d => timeText(d.seconds));
  }

  // ---- the network ----

  const size = step => step.kind === "convert" || step.kind === "input" ? {width: 190, height: 24} : {width: 214, height: 42};

  // Steps, and in front of them the network's inputs.
  function laidOut(plan) {
    if (plan.drawn) return plan.drawn;
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({rankdir: "TB", nodesep: 16, ranksep: 24, marginx: 12, marginy: 12, ranker: plan.steps.length > 250 ? "tight-tree" : "network-simplex"});
    graph.setDefaultEdgeLabel(() => ({}));
    const nodes = new Map();
    const add = (id, step) => {
      nodes.set(id, step);
      graph.setNode(id, {...size(step), id, step});
    };
    plan.steps.forEach((step, i) => add(String(i), step));
    plan.steps.forEach((step, i) => step.inputs.forEach(from => {
      const id = from < 0 ? `input ${-1 - from}` : String(from);
      if (!nodes.has(id)) add(id, {kind: "input", nodes: data.inputs[-1 - from] || id, writes: step.reads, inputs: []});
      graph.setEdge(id, String(i), {side: from < 0 ? step.reads : nodes.get(id).writes});
    }));
    dagre.layout(graph);
    plan.drawn = graph;
    return graph;
  }

  const typeOf = step => step.writes ? step.writes.type : "none";
  const styleOf = step => step.kind === "convert" ? "convert" : family(step.writes);

  function drawGraph(place, plan) {
    const graph = laidOut(plan), {width, height} = graph.graph();
    const longest = d3.max(plan.steps, step => step.seconds) || 1;
    place.append("h3").text(`${plan.name}: ${timeText(plan.seconds)}`);
    const pane = place.append("div").attr("class", "pane").style("height", `${height + 20}px`);
    const scroll = pane.append("div").attr("class", "scroll").attr("tabindex", 0);
    const svg = scroll.append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("class", "network");
    const edges = graph.edges().map(edge => graph.edge(edge));
    const line = d3.line().x(point => point.x).y(point => point.y).curve(d3.curveBasis);
    svg.append("g").selectAll("path").data(edges).join("path")
      .attr("class", edge => `edge ${family(edge.side)}`)
      .attr("d", edge => line(edge.points));
    const node = svg.append("g").selectAll("g").data(graph.nodes().map(id => graph.node(id))).join("g")
      .attr("class", d => `node ${styleOf(d.step)}`).attr("data-name", d => d.step.nodes)
      .attr("transform", d => `translate(${d.x - d.width / 2},${d.y - d.height / 2})`)
      .on("click", d => show(d.step));
    node.append("rect").attr("class", "box").attr("width", d => d.width).attr("height", d => d.height)
      .attr("rx", d => d.step.kind === "convert" || d.step.kind === "input" ? 12 : 4);
    const box = node.filter(d => d.step.kind !== "convert" && d.step.kind !== "input");
    box.append("rect").attr("class", d => `band type ${typeOf(d.step)}`).attr("width", 6).attr("height", d => d.height);
    // What part of the longest step's time it takes, along the lower edge.
    box.append("rect").attr("class", "band").attr("y", d => d.height - 4).attr("height", 4).attr("width", d => d.width * d.step.seconds / longest);
    box.append("text").attr("class", "name").attr("x", 12).attr("y", 16).text(d => nameOf(d.step, d.width - 20));
    box.append("text").attr("class", "soft").attr("x", 12).attr("y", 32)
      .text(d => beginning(d.step.runs_on.replace(/\{.*/, ""), d.width - 80));
    box.append("text").attr("x", d => d.width - 8).attr("y", 32).attr("text-anchor", "end").text(d => timeText(d.step.seconds));
    node.filter(d => d.step.kind === "convert").append("text").attr("x", d => d.width / 2).attr("y", 16).attr("text-anchor", "middle")
      .text(d => `⇄ ${d.step.reads ? d.step.reads.layout : ""} → ${d.step.writes ? d.step.writes.layout : ""} ${timeText(d.step.seconds)}`);
    node.filter(d => d.step.kind === "input").append("text").attr("x", d => d.width / 2).attr("y", 16).attr("text-anchor", "middle")
      .text(d => beginning(d.step.nodes, d.width - 12));
    node.append("title").text(d => d.step.kind === "input" ? d.step.nodes
      : `${d.step.nodes}\n${d.step.runs_on}\nreads ${sideText(d.step.reads)}\nwrites ${sideText(d.step.writes)}\n${timeText(d.step.seconds)}`);

    const view = {plan, svg, node, scroll: scroll.node(), width, height, scale: 1};
    drawOverview(view, pane);
    zoom(view, Math.min(1, Math.max(0.75, (view.scroll.clientWidth - 4) / width)));
    // A wide drawing is scrolled to where it begins.
    const first = graph.node(graph.nodes().find(id => graph.node(id).step.kind === "input") || graph.nodes()[0]);
    view.scroll.scrollLeft = first.x * view.scale - view.scroll.clientWidth / 2;
    return view;
  }

  function zoom(view, scale) {
    const middle = (view.scroll.scrollTop + view.scroll.clientHeight / 2) / view.scale;
    view.scale = Math.min(3, Math.max(0.02, scale));
    view.svg.attr("width", view.width * view.scale).attr("height", view.height * view.scale);
    view.scroll.scrollTop = middle * view.scale - view.scroll.clientHeight / 2;
    view.mark();
  }

  // The whole network in a narrow strip: where conversions are, what is seen, a click goes there.
  function drawOverview(view, pane) {
    const strip = pane.append("div").attr("class", "overview").attr("title", "The whole network; a click goes there");
    const height = strip.node().clientHeight || 400, y = d3.scaleLinear([0, view.height], [0, height]);
    const svg = strip.append("svg").attr("width", 21).attr("height", height);
    svg.selectAll("rect").data(view.node.data()).join("rect").attr("class", d => styleOf(d.step))
      .attr("x", d => 1 + 19 * (d.x - d.width / 2) / view.width).attr("width", d => Math.max(3, 19 * d.width / view.width))
      .attr("y", d => y(d.y - d.height / 2)).attr("height", d => Math.max(1, y(d.height)));
    const seen = svg.append("rect").attr("class", "seen").attr("x", 0.5).attr("width", 20);
    view.mark = () => {
      const top = view.scroll.scrollTop / view.scale, bottom = Math.min(view.height, top + view.scroll.clientHeight / view.scale);
      seen.attr("y", y(top)).attr("height", Math.max(4, y(bottom) - y(top)));
    };
    view.scroll.addEventListener("scroll", view.mark);
    strip.on("click", () => {
      view.scroll.scrollTop = y.invert(d3.mouse(strip.node())[1]) * view.scale - view.scroll.clientHeight / 2;
    });
  }

  let views = [], detail = null;

  function reveal(view, name) {
    view.node.classed("chosen", d => d.step.nodes === name);
    const found = view.node.filter(d => d.step.nodes === name).data()[0];
    if (!found) return;
    view.scroll.scrollTo({top: found.y * view.scale - view.scroll.clientHeight / 2, left: found.x * view.scale - view.scroll.clientWidth / 2});
  }

  function show(step) {
    if (step.kind === "input") return;
    views.forEach(view => view.node.classed("chosen", d => d.step.nodes === step.nodes));
    const rows = [["nodes", step.nodes]];
    for (const {plan} of views) {
      for (const own of plan.steps.filter(each => each.nodes === step.nodes)) {
        rows.push([plan.name, `${own.runs_on}: ${timeText(own.seconds)}` +
          (own.predicted_seconds === null ? "" : `, ${own.cost_is} ${timeText(own.predicted_seconds)}`)]);
        rows.push(["reads → writes", `${sideText(own.reads)} → ${sideText(own.writes)}`]);
        if (own.gflops_per_second) rows.push(["GFLOP/s", own.gflops_per_second.toPrecision(3)]);
        if (own.problem) rows.push(["problem", own.problem]);
      }
    }
    const list = detail.html("").append("dl");
    for (const [name, value] of rows) {
      list.append("dt").text(name);
      list.append("dd").text(value);
    }
  }

  function drawGraphs() {
    const place = d3.select("#graph .graphs");
    place.selectAll("*").remove();
    const shown = [chosen.first].concat(chosen.beside ? [chosen.second] : []);
    const places = shown.map(() => place.append("div"));  // all of them first: they share the width
    views = shown.map((which, i) => drawGraph(places[i], plans[which]));
  }

  function select(place, label, value, change) {
    const box = place.append("label").text(`${label} `).append("select").on("change", function () { change(Number(this.value)); });
    box.selectAll("option").data(plans).join("option").attr("value", (plan, i) => i).property("selected", (plan, i) => i === value).text(plan => plan.name);
  }

  function buildGraph() {
    const place = d3.select("#graph"), controls = place.append("div").attr("class", "controls");
    select(controls, "plan", chosen.first, which => { chosen.first = which; drawGraphs(); drawMemory(); });
    if (plans.length > 1) {
      const label = controls.append("label");
      label.append("input").attr("type", "checkbox").attr("id", "beside").property("checked", chosen.beside).on("change", function () { chosen.beside = this.checked; drawGraphs(); });
      label.append("span").text(" side by side with");
      select(controls, "", chosen.second, which => { chosen.second = which; drawGraphs(); drawMemory(); });
    }
    controls.append("input").attr("type", "search").attr("id", "find").attr("placeholder", "Find a node").attr("aria-label", "Find a node in the drawing")
      .on("input", function () {
        const wanted = this.value.toLowerCase();
        const found = wanted && plans[chosen.first].steps.find(step => step.nodes.toLowerCase().includes(wanted));
        if (found) { show(found); views.forEach(view => reveal(view, found.nodes)); }
      });
    for (const [text, change] of [["−", view => view.scale / 1.3], ["+", view => view.scale * 1.3], ["1:1", () => 1],
      ["whole", view => Math.min((view.scroll.clientWidth - 4) / view.width, (view.scroll.clientHeight - 4) / view.height)]]) {
      controls.append("button").attr("type", "button").text(text).on("click", () => views.forEach(view => zoom(view, change(view))));
    }
    const legend = place.append("div").attr("class", "legend");
    for (const [name, text] of Object.entries(families)) {
      const item = legend.append("span").attr("class", name);
      item.append("i");
      item.append("span").text(text);
    }
    for (const type of new Set(plans.flatMap(plan => plan.steps.map(typeOf)))) {
      const item = legend.append("span");
      item.append("i").attr("class", `type ${type}`);
      item.append("span").text(`${type} (left edge)`);
    }
    place.append("div").attr("class", "graphs");
    detail = place.append("div").attr("class", "detail").attr("aria-live", "polite");
    drawGraphs();
  }

  // ---- memory ----

  function drawMemory() {
    const place = d3.select("#live");
    place.selectAll("*").remove();
    const first = plans[chosen.first], second = chosen.second !== chosen.first ? plans[chosen.second] : null;
    const width = Math.max(280, place.node().clientWidth), height = width < 500 ? 200 : 260, left = 62, bottom = 34;
    const points = first.steps.map((step, i) => ({step, i, live: first.live_bytes[i], work: step.workspace_bytes}));
    const most = d3.max(points.map(point => point.live + point.work).concat(second ? second.live_bytes : []).concat(first.activation_bytes)) || 1;
    const x = d3.scaleLinear([0, points.length], [left, width - 10]), unit = most < 2 ** 20 ? 1024 : 2 ** 20, scaled = d3.scaleLinear([0, most / unit], [height - bottom, 8]).nice(4), y = bytes => scaled(bytes / unit);
    const svg = chart(place, width, height).attr("aria-label", "Memory over the steps");
    const steps = (from, to) => d3.area().x((point, i) => x(i)).y0(from).y1(to).curve(d3.curveStepAfter);
    const closed = points.concat(points.slice(-1));
    svg.append("path").attr("class", "live").attr("d", steps(y(0), point => y(point.live))(closed));
    svg.append("path").attr("class", "work").attr("d", steps(point => y(point.live), point => y(point.live + point.work))(closed));
    if (second) {
      const scale = points.length / Math.max(1, second.live_bytes.length);
      svg.append("path").attr("class", "live second")
        .attr("d", d3.line().x((bytes, i) => x(i * scale)).y(bytes => y(bytes)).curve(d3.curveStepAfter)(second.live_bytes.concat(second.live_bytes.slice(-1))));
    }
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - bottom})`).call(d3.axisBottom(x).tickValues(x.ticks(width < 500 ? 4 : 10).filter(Number.isInteger)).tickFormat(d3.format("d")));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`).call(d3.axisLeft(scaled).ticks(4).tickFormat(value => `${value} ${unit === 1024 ? "KiB" : "MiB"}`));
    svg.append("text").attr("class", "soft").attr("x", width - 10).attr("y", height - 3).attr("text-anchor", "end").text("step");
    place.append("div").attr("class", "soft")
      .text(`area ${first.name}${second ? `, line ${second.name}${second.steps.length === points.length ? "" : ` (${second.steps.length} steps, drawn as wide)`}` : ""}, ${bytesText(first.activation_bytes)} planned in all`);
    svg.append("g").selectAll("rect").data(points).join("rect").attr("x", point => x(point.i)).attr("width", x(1) - x(0)).attr("y", 8)
      .attr("height", height - bottom - 8).attr("fill", "transparent").append("title")
      .text(point => `${point.i} ${point.step.nodes}: ${bytesText(point.live)}${point.work ? `, workspace ${bytesText(point.work)}` : ""}`);
  }

  buildGraph();
  drawTimes();
  drawMemory();
  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => { drawTimes(); drawGraphs(); drawMemory(); }, 150);
  });
})();
