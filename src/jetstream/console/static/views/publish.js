import { post } from "../api.js";
import { act, command, h, show } from "../dom.js";

export function open(page) {
  const subject = h("input", { required: true, placeholder: "orders.new", "aria-label": "subject" }), headers = h("input", { placeholder: "Nats-Msg-Id: 1, Other: x", "aria-label": "headers" }), data = h("textarea", { "aria-label": "data", spellcheck: "false" }), js = h("input", { type: "checkbox", checked: true, "aria-label": "wait for the ack" });
  const out = h("div", { id: "ack" });
  show(page, h("h1", {}, "Publish"), h("form.card", { onsubmit: act(async () => {
    const pairs = Object.fromEntries(headers.value.split(",").map((p) => p.split(":").map((t) => t.trim())).filter((p) => p[0] && p[1]));
    const ack = await post("/publish", { subject: subject.value, data: data.value, headers: pairs, jetstream: js.checked });
    show(out, h("pre", {}, JSON.stringify(ack, null, 2)), command("pub", subject.value, data.value, ...(js.checked ? ["--jetstream"] : [])));
  }) }, h("label", {}, "Subject", subject), h("label", {}, "Headers", headers), h("label", {}, "Data", data), h("div.row", {}, h("label", {}, js, " wait for the stream's ack"), h("button", {}, "Publish"))), out);
}
