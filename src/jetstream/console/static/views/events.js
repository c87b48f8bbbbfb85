import { get } from "../api.js";
import { act, bytes, command, h, number, show, table, when } from "../dom.js";
import { onModel } from "../main.js";

export function open(page) {
  const box = h("div"), who = h("div");
  show(page, h("h1", {}, "Events and connections"), h("h2", {}, "Connections"), h("button.plain", { onclick: act(load) }, "Show"), who, h("h2", {}, "Advisories"), box, command("events", "--js-advisory"));
  async function load() {
    const found = await get("/connections");
    show(who, table([{ title: "Id", n: 1, cell: (c) => c.cid }, { title: "Name", cell: (c) => c.name || "" }, { title: "Client", hide: 1, cell: (c) => `${c.lang || ""} ${c.version || ""}` }, { title: "From", hide: 1, cell: (c) => `${c.ip}:${c.port}` }, { title: "In", n: 1, cell: (c) => number(c.in_msgs) }, { title: "Out", n: 1, cell: (c) => number(c.out_msgs) }, { title: "Waiting", n: 1, cell: (c) => bytes(c.pending_bytes) }], found.connections || []), command("server", "report", "connections"));
  }
  return onModel((m) => show(box, m.advisories.length ? m.advisories.map((a) => h("details.card", {}, h("summary", {}, when(a.time_ms) + " ", h("b", {}, a.kind), " " + a.subject), h("pre", {}, JSON.stringify(a.text, null, 2)))) : h("p.quiet", {}, "none yet")));
}
