// Runs the script of a report's page (standard input) on a table that stands for the page's: a click sorts, the box searches.
"use strict";
const assert = require("assert");
const source = require("fs").readFileSync(0, "utf8");

class Element {
  constructor(tag, text = "") {
    Object.assign(this, {tagName: tag.toUpperCase(), childNodes: [], listeners: {}, attributes: {}, dataset: {}, hidden: false, own: text, before_: []});
    this.classList = {contains: name => (this.classes || []).includes(name)};
  }
  get textContent() { return this.own + this.childNodes.map(child => child.textContent).join(" "); }
  append(...nodes) {
    for (const node of nodes) {
      if (node.parent) node.parent.childNodes = node.parent.childNodes.filter(other => other !== node);
      node.parent = this;
      this.childNodes.push(node);
    }
  }
  before(node) { this.before_.push(node); }
  addEventListener(name, body) { this.listeners[name] = body; }
  getAttribute(name) { return this.attributes[name] ?? null; }
  setAttribute(name, value) { this.attributes[name] = value; }
  removeAttribute(name) { delete this.attributes[name]; }
}

const rows = [["3x3 nhwc", "-", undefined], ["1x1 nchw", "20 us", 2e-5], ["7x7 nhwc", "9 us", 9e-6]].map(([name, time, value]) => {
  const row = new Element("tr"), first = new Element("td", name), second = new Element("td", time);
  if (value !== undefined) second.dataset.v = String(value);
  row.cells = [first, second];
  row.append(first, second);
  return row;
});
const body = new Element("tbody");
body.append(...rows);
Object.defineProperty(body, "rows", {get: () => body.childNodes});
const heads = ["convolution", "time"].map(text => {
  const head = new Element("th");
  head.append(new Element("text", text));
  return head;
});
heads[1].classes = ["right"];
const place = new Element("div"), table = new Element("table");
Object.assign(table, {tBodies: [body], tHead: {rows: [{cells: heads}]}, closest: () => place});
const details = new Element("details");
globalThis.document = {querySelectorAll: () => [table], createElement: tag => new Element(tag),
                       getElementById: id => id === "c2" ? details : null};
globalThis.location = {hash: "#c2"};
globalThis.addEventListener = () => {};
(0, eval)(source);

assert.strictEqual(details.open, true, "a link to details opens them");
const names = () => body.childNodes.map(row => row.cells[0].own);
const click = head => head.childNodes[0].listeners.click();
click(heads[1]);
assert.deepStrictEqual(names(), ["1x1 nchw", "7x7 nhwc", "3x3 nhwc"], "numbers: the largest first, what has none last");
assert.strictEqual(heads[1].attributes["aria-sort"], "descending");
click(heads[1]);
assert.deepStrictEqual(names(), ["7x7 nhwc", "1x1 nchw", "3x3 nhwc"]);
click(heads[0]);
assert.deepStrictEqual(names(), ["1x1 nchw", "3x3 nhwc", "7x7 nhwc"], "text: from a to z");
assert.strictEqual(heads[1].attributes["aria-sort"], undefined);
const box = place.before_[0];
box.value = "NHWC 7x7";
box.listeners.input();
assert.deepStrictEqual(body.childNodes.filter(row => !row.hidden).map(row => row.cells[0].own), ["7x7 nhwc"], "every word must occur");
box.value = "";
box.listeners.input();
assert.ok(body.childNodes.every(row => !row.hidden));
