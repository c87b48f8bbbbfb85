import { bytes, h, number, rate, show, table, when } from "../dom.js";
import { lines, spark } from "../charts.js";
import { go, onModel } from "../main.js";

export function open(page) {
  const tiles = h("div.tiles"), chart = h("canvas", { role: "img", "aria-label": "messages per second by stream" });
  const streams = h("div"), consumers = h("div"), pipelines = h("div"), advisories = h("div"), trouble = h("div");
  show(page, h("h1", {}, "Overview"), trouble, tiles, h("h2", {}, "Messages per second by stream"), h("div.card", {}, chart),
    h("div.columns", {}, h("section", {}, h("h2", {}, "Streams"), streams), h("section", {}, h("h2", {}, "Consumers by lag"), consumers)),
    h("div.columns", {}, h("section", {}, h("h2", {}, "Pipelines"), pipelines), h("section", {}, h("h2", {}, "Last advisories"), advisories)));
  return onModel((m) => {
    const tile = (label, value, id) => h("div.tile", { id }, h("b", {}, value), h("span", {}, label));
    show(tiles, tile("in", rate(m.in_rate)), tile("out", rate(m.out_rate)), tile("stored", number(m.stored_messages), "stored"), tile("on disk and in memory", bytes(m.stored_bytes)),
      tile("largest lag", number(m.lag)), tile("connections", m.connections ?? "—"), tile("store used", m.store_share === null ? "no limit" : (m.store_share * 100).toFixed(1) + " %"));
    show(trouble, m.trouble.map((t) => h("p.card.trouble", {}, t)));
    const busiest = [...m.streams].sort((a, b) => Math.max(...b.spark) - Math.max(...a.spark)).slice(0, 6);
    lines(chart, busiest.map((s) => ({ name: s.name, values: s.spark })));
    const little = (s) => { const c = h("canvas.spark"); requestAnimationFrame(() => spark(c, s.spark)); return c; };
    show(streams, table([{ title: "Name", cell: (s) => s.name }, { title: "Messages", n: 1, cell: (s) => number(s.messages) }, { title: "Size", n: 1, hide: 1, cell: (s) => bytes(s.bytes) },
      { title: "In", n: 1, cell: (s) => rate(s.in_rate) }, { title: "", hide: 1, cell: little }], m.streams, (s) => go("streams", s.name)));
    show(consumers, table([{ title: "Consumer", cell: (c) => c.stream + " › " + c.name }, { title: "Lag", n: 1, cell: (c) => number(c.lag) }, { title: "Pending", n: 1, hide: 1, cell: (c) => number(c.pending) },
      { title: "Out", n: 1, cell: (c) => rate(c.out_rate) }], m.consumers.slice(0, 12), (c) => go("consumers", c.stream, c.name)));
    show(pipelines, m.pipelines.length ? table([{ title: "Name", cell: (p) => p.name || p.query || p.key }, { title: "State", cell: (p) => p.state || "running" }], m.pipelines, () => go("pipelines")) : h("p.quiet", {}, "no pipeline is running"));
    show(advisories, m.advisories.length ? table([{ title: "When", cell: (a) => when(a.time_ms) }, { title: "What", cell: (a) => a.kind }, { title: "About", cell: (a) => a.subject.split(".").slice(5).join(" › ") }], m.advisories.slice(0, 10)) : h("p.quiet", {}, "none yet"));
  });
}
