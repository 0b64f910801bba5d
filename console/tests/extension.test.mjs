// An extension server behind the API: its pages have the console's origin, and its lists are as long as they like.
import assert from "node:assert/strict";
import { createServer as createPlainServer } from "node:http";
import { createServer, request } from "node:https";
import { after, before, test } from "node:test";
import { isClean, signIn, startBrowser, startServer, until } from "./browser.mjs";
import { makeCertificate } from "./certificate.mjs";

const GROUP = "things.example.com";
const API = `/apis/${GROUP}/v1`;
const ROWS = 50_000;

let server;
let browser;
let extension;

before(async () => {
  server = await startServer();
  browser = await startBrowser();
  extension = await startExtension();
});

after(async () => {
  await browser?.close();
  await server?.stop();
  await extension?.stop();
});

/** The script of a page that tries what a page of the console's origin could do. */
const ATTEMPT = `
  const tried = {};
  const note = async (name, what) => { try { tried[name] = String(await what()); } catch (error) { tried[name] = error.name; } };
  (async () => {
    await note("storage", () => localStorage.getItem("ferrokube-console-key"));
    await note("cookie", () => document.cookie);
    await note("session", async () => (await fetch("/console/session", { headers: { "x-ferrokube-console": "x" } })).status);
    await note("worker", () => navigator.serviceWorker.register("worker.js", { scope: "/" }));
    document.title = JSON.stringify(tried);
  })();`;
const HOSTILE_HEADERS = { "content-type": "text/html", "set-cookie": "__Host-ferrokube-console=planted; Path=/; Secure", "clear-site-data": '"*"' };

/** Rows of a list, in pages, as a table. */
function rowsPage(query) {
  const [from, limit] = [Number(query.get("continue") || 0), Number(query.get("limit") || ROWS)];
  const row = (at) => ({ cells: [`row-${String(at).padStart(6, "0")}`, "Running", at % 7], object: { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: { name: `row-${String(at).padStart(6, "0")}`, namespace: "default", uid: `uid-${at}`, resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z" } } });
  const end = Math.min(ROWS, from + limit);
  return {
    kind: "Table",
    apiVersion: "meta.k8s.io/v1",
    metadata: { resourceVersion: "7", ...(end < ROWS ? { continue: String(end) } : {}) },
    columnDefinitions: [{ name: "Name", type: "string", format: "name", priority: 0 }, { name: "Status", type: "string", priority: 0 }, { name: "Restarts", type: "integer", priority: 0 }],
    rows: Array.from({ length: end - from }, (_, at) => row(from + at)),
  };
}

async function startExtension() {
  const { cert, key } = makeCertificate();
  const resources = [{ name: "rows", singularName: "row", namespaced: true, kind: "Row", verbs: ["get", "list", "watch"] }];
  const extension = createServer({ cert, key }, (asked, response) => {
    const url = new URL(asked.url, "https://extension");
    const json = (body, code = 200) => response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
    switch (url.pathname) {
      case `${API}/page`:
        return response.writeHead(200, HOSTILE_HEADERS).end(`<script>${ATTEMPT}</script>`);
      case `${API}/worker.js`:
        return response.writeHead(200, { "content-type": "text/javascript", "service-worker-allowed": "/" }).end("onfetch = () => {};");
      case `${API}/rows`:
        if (!url.searchParams.has("watch")) return json(rowsPage(url.searchParams));
        response.writeHead(200, { "content-type": "application/json" }).flushHeaders();
        return undefined;
      case API:
        return json({ kind: "APIResourceList", apiVersion: "v1", groupVersion: `${GROUP}/v1`, resources });
      default:
        return json({}, 404);
    }
  });
  await new Promise((done) => extension.listen(0, done));
  const service = { namespace: "default", name: "things", port: extension.address().port };
  await server.api("POST", "/api/v1/namespaces/default/services", { metadata: { name: "things" }, spec: { type: "ExternalName", externalName: "localhost" } });
  const spec = { group: "things.example.com", version: "v1", groupPriorityMinimum: 100, versionPriority: 10, insecureSkipTLSVerify: true, service };
  await server.api("POST", "/apis/apiregistration.k8s.io/v1/apiservices", { metadata: { name: "v1.things.example.com" }, spec });
  // Everybody may see the page, so that a browser without credentials gets it.
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  await server.api("POST", `${rbac}/clusterroles`, { metadata: { name: "things" }, rules: [{ apiGroups: ["things.example.com"], resources: ["*"], verbs: ["*"] }] });
  const subjects = [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "system:unauthenticated" }];
  await server.api("POST", `${rbac}/clusterrolebindings`, { metadata: { name: "things" }, roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "things" }, subjects });
  await until(async () => assert.equal((await server.call("GET", "/apis/things.example.com/v1/page")).code, 200));
  return { stop: () => new Promise((done) => (extension.close(done), extension.closeAllConnections())) };
}

/** What `kubectl proxy` does: adds the credential, and says whom the request is from. */
async function startProxy() {
  const target = new URL(server.url);
  const proxy = createPlainServer((asked, response) => {
    const headers = { ...asked.headers, host: target.host, authorization: `Bearer ${server.token}`, "x-forwarded-for": "127.0.0.1" };
    const sent = request({ host: target.hostname, port: target.port, path: asked.url, method: asked.method, headers, rejectUnauthorized: false }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    sent.on("error", () => response.destroy());
    response.on("close", () => sent.destroy());
    asked.pipe(sent);
  });
  await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${proxy.address().port}`, stop: () => new Promise((done) => (proxy.close(done), proxy.closeAllConnections())) };
}

test("pages of extension servers get an origin of their own where the console may have a session", async () => {
  const proxy = await startProxy();
  const results = async (page) => until(async () => JSON.parse(await page.title()));
  try {
    const page = await browser.open(server);
    await signIn(page, server);
    await page.goto(`${server.url}/apis/things.example.com/v1/page`);
    const contained = { storage: "SecurityError", cookie: "SecurityError", session: "TypeError", worker: "SecurityError" };
    assert.deepEqual(await results(page), contained);
    // A link on another site brings no cookie, but the session is there.
    await page.goto("about:blank");
    await page.evaluate((url) => location.assign(url), `${server.url}/apis/things.example.com/v1/page`);
    assert.deepEqual(await results(page), contained);
    // The session is neither replaced nor gone.
    await page.goto(`${server.url}/console/`);
    await page.getByText("ready", { exact: true }).waitFor();
    // kubectl gets what the extension server sends.
    const plain = await server.call("GET", "/apis/things.example.com/v1/page");
    assert.equal(plain.headers["content-security-policy"], undefined);
    assert.equal(plain.headers["clear-site-data"], '"*"');
    // Behind kubectl proxy the console needs no session, and pages work as with kube-apiserver.
    const behind = await browser.open(proxy);
    await behind.goto(`${proxy.url}/console/`);
    await behind.getByText("ready", { exact: true }).waitFor();
    assert.equal(await behind.getByRole("button", { name: "Sign out" }).count(), 0);
    isClean(behind);
    await behind.goto(`${proxy.url}/apis/things.example.com/v1/page`);
    assert.equal((await results(behind)).storage, "null");
  } finally {
    await proxy.stop();
  }
});

test("a table of 50,000 rows is complete, and only what is in sight is in the document", async () => {
  const page = await browser.open(server);
  await signIn(page, server);
  await page.goto(`${server.url}/console/#/objects/${GROUP}/rows`);
  const began = Date.now();
  await page.getByText("row-000000").waitFor();
  const first = Date.now() - began;
  await page.getByRole("status").getByText(`${ROWS} of ${ROWS}, live`).waitFor({ timeout: 120_000 });
  console.log(`# ${ROWS} rows: the first after ${first} ms, all after ${Date.now() - began} ms`);
  await page.locator(".tall").evaluate((place) => (place.scrollTop = place.scrollHeight));
  await page.getByText(`row-0${ROWS - 1}`).waitFor();
  assert.ok((await page.locator("main tr").count()) < 200);
  await page.getByLabel("Filter rows").fill("row-04242");
  await page.getByText("row-042420").waitFor();
  await page.getByRole("status").getByText(`10 of ${ROWS}`).waitFor();
  isClean(page);
});
