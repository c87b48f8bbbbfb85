// Talks to the console's own endpoints. Changes carry the page's token.
let token = "";
export function setToken(value) { token = value; }

export class Problem extends Error {
  constructor(status, body) {
    super(body.error || "something went wrong");
    this.status = status; this.code = body.err_code; this.hint = body.hint;
  }
}

export async function call(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (options.method && options.method !== "GET") headers["x-console-token"] = token;
  if (options.json !== undefined) { options.body = JSON.stringify(options.json); headers["content-type"] = "application/json"; }
  const response = await fetch("/api" + path, { ...options, headers, credentials: "same-origin" });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, body);
  return body;
}
export const get = (path) => call(path);
export const post = (path, json = {}) => call(path, { method: "POST", json });
export const put = (path, json) => call(path, { method: "PUT", json });
export const del = (path) => call(path, { method: "DELETE" });

// An upload that tells how far it is (fetch cannot).
export function upload(path, file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", "/api" + path);
    request.setRequestHeader("x-console-token", token);
    request.upload.onprogress = (e) => e.lengthComputable && onProgress(e.loaded / e.total);
    request.onerror = () => reject(new Problem(0, { error: "the upload was interrupted" }));
    request.onload = () => {
      const body = JSON.parse(request.responseText || "{}");
      request.status < 300 ? resolve(body) : reject(new Problem(request.status, body));
    };
    request.send(file);
  });
}

// Server-sent events; returns a function that ends them.
export function listen(path, handlers) {
  const source = new EventSource("/api" + path);
  for (const [kind, handler] of Object.entries(handlers)) source.addEventListener(kind, (e) => handler(JSON.parse(e.data)));
  return () => source.close();
}
export const enc = encodeURIComponent;
