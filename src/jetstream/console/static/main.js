// The page: log-in, navigation, one view at a time, and the live model all views share.
import { get, listen, post, setToken } from "./api.js";
import { act, complain, h, show } from "./dom.js";

const page = document.getElementById("page");
const VIEWS = {
  "": ["Overview", () => import("./views/overview.js")],
  streams: ["Streams", () => import("./views/streams.js")],
  consumers: ["Consumers", () => import("./views/consumers.js")],
  kv: ["Key-value", () => import("./views/kv.js")],
  objects: ["Objects", () => import("./views/objects.js")],
  pipelines: ["Pipelines", () => import("./views/pipelines.js")],
  publish: ["Publish", () => import("./views/publish.js")],
  events: ["Events", () => import("./views/events.js")],
};
export const live = { model: null, handlers: new Set() };
let leave = null, stopEvents = null, visit = 0;

export function onModel(handler) {
  live.handlers.add(handler);
  if (live.model) handler(live.model);
  return () => live.handlers.delete(handler);
}
export const go = (...parts) => { location.hash = "#/" + parts.map(encodeURIComponent).join("/"); };

async function route() {
  const mine = ++visit;
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [name, ...rest] = parts;
  const [title, load] = VIEWS[name] || VIEWS[""];
  for (const link of document.querySelectorAll("#nav a")) link.toggleAttribute("aria-current", link.dataset.view === (VIEWS[name] ? name : ""));
  document.title = (rest[0] ? rest[0] + " · " : "") + title + " · JetStream";
  if (leave) { leave(); leave = null; }
  try {
    const view = await load();
    if (mine !== visit) return;
    const left = await view.open(page, rest);
    if (mine !== visit) { left?.(); return; }
    leave = left || null;
  } catch (problem) {
    if (problem.status === 401) return logIn();
    show(page, h("h1", {}, title), h("p.card.trouble", {}, problem.message));
    complain(problem);
  }
}

function logIn(text) {
  if (stopEvents) { stopEvents(); stopEvents = null; }
  const user = h("input", { name: "user", autocomplete: "username" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password" });
  const secret = h("input", { name: "token", type: "password", autocomplete: "off" });
  const form = h("form.card.login", { onsubmit: act(async () => {
    const session = await post("/login", { user: user.value, password: password.value, token: secret.value });
    begin(session);
  }) }, h("h1", {}, "Log in"), h("p.quiet", {}, text || "with a NATS user of this server; its permissions decide what you may do"),
    h("label", {}, "User", user), h("label", {}, "Password", password), h("label", {}, "or token", secret), h("div.row", {}, h("button", {}, "Log in")));
  show(page, form);
  user.focus();
}

function begin(session) {
  setToken(session.csrf);
  const out = h("button.plain", { onclick: act(async () => { await post("/logout"); location.reload(); }) }, "Log out");
  show(document.getElementById("who"), `${session.user || "anonymous"} · ${session.server.name.slice(0, 16)} ${session.server.version} `, session.user ? out : "");
  show(document.getElementById("nav"), Object.entries(VIEWS).map(([name, [title]]) => h("a", { href: "#/" + name, "data-view": name }, title)));
  stopEvents = listen("/events", {
    model: (model) => { live.model = model; for (const handler of live.handlers) handler(model); },
    problem: (problem) => { if (!live.model) complain(problem.error ? { message: problem.error, hint: problem.hint } : problem); },
  });
  route();
}

window.addEventListener("hashchange", route);
get("/session").then(begin, (problem) => (problem.status === 401 ? logIn() : show(page, h("p.card.trouble", {}, problem.message))));
