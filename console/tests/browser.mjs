// A server and a browser for the tests.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const PROGRAM = process.env.FERROKUBE_BINARY ?? fileURLToPath(new URL("../../target/debug/ferrokube", import.meta.url));
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Set while the pages are worked on: files of crates/console/pages stand in for those in the program. */
const FROM_DISK = process.env.CONSOLE_FROM_DISK;
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Sends requests with a token; `call` answers with whatever comes, `api` wants a success. */
function client(url, token) {
  const call = (method, path, body, as = token, headers = {}) =>
    new Promise((done, failed) => {
      const options = { method, agent: AGENT, headers: { ...(as ? { authorization: `Bearer ${as}` } : {}), "content-type": "application/json", ...headers } };
      const sent = request(new URL(path, url), options, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (more) => (text += more)).on("end", () => done({ code: response.statusCode, headers: response.headers, text, json: () => JSON.parse(text) }));
      });
      sent.on("error", failed).end(body === undefined ? undefined : JSON.stringify(body));
    });
  const api = async (method, path, body, headers = {}) => {
    const answer = await call(method, path, body, token, headers);
    if (answer.code >= 300) throw new Error(`${method} ${path}: ${answer.code} ${answer.text.slice(0, 300)}`);
    return answer.json();
  };
  return { call, api };
}

const AGENT = new Agent({ keepAlive: true, maxSockets: 32, rejectUnauthorized: false });

/** A server of its own, which ends with the test. */
export async function startServer() {
  const child = spawn(PROGRAM, ["test-server", "--print-json"], { stdio: ["pipe", "pipe", "inherit"] });
  const line = await new Promise((done, failed) => {
    createInterface({ input: child.stdout }).once("line", done);
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}`)));
    child.once("error", failed);
  });
  const ready = JSON.parse(line);
  const { call, api } = client(ready.url, ready.token);
  /** A service account's token; its name is system:serviceaccount:default:NAME. */
  const account = async (name) => {
    await api("POST", "/api/v1/namespaces/default/serviceaccounts", { metadata: { name } });
    const made = await api("POST", `/api/v1/namespaces/default/serviceaccounts/${name}/token`, { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} });
    return made.status.token;
  };
  const stop = () =>
    new Promise((done) => {
      if (child.exitCode !== null) return done();
      child.once("exit", done);
      child.stdin.end();
    });
  return { url: ready.url, token: ready.token, pid: child.pid, call, api, account, stop };
}

/** A server as an operator starts it, on a store on disk; the administrator's token is "admin". */
export async function startOnDisk(flags = []) {
  const folder = mkdtempSync(join(tmpdir(), "console-"));
  writeFileSync(join(folder, "tokens"), 'admin,admin,admin,"system:masters"\n');
  const own = ["--data-dir", join(folder, "data"), "--secure-port", String(await freePort()), "--token-auth-file", join(folder, "tokens")];
  const child = spawn(PROGRAM, [...own, ...flags], { stdio: ["ignore", "pipe", "ignore"] });
  const url = await new Promise((done, failed) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const ready = /is ready on (https:\/\/\S+)/.exec(line);
      if (ready) done(ready[1]);
    });
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}`)));
  });
  const stop = async () => {
    const ended = new Promise((done) => child.once("exit", done));
    child.kill();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  const link = () => execFileSync(PROGRAM, ["console", "--data-dir", join(folder, "data")], { encoding: "utf8" }).trim();
  return { url, link, stop, token: "admin", pid: child.pid, ...client(url, "admin") };
}

function freePort() {
  return new Promise((done) => {
    const taken = createServer().listen(0, "127.0.0.1", () => {
      const { port } = taken.address();
      taken.close(() => done(port));
    });
  });
}

export async function startBrowser() {
  if (!existsSync(CHROMIUM)) throw new Error(`${CHROMIUM} is not there; CHROMIUM names another one`);
  const folder = mkdtempSync(join(tmpdir(), "console-"));
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: QUIET });
  const close = async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  };
  /** A page of its own, without cookies. It remembers what the browser complained about. */
  const open = async (server, options = {}) => {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, colorScheme: "dark", ...options });
    const page = await context.newPage();
    page.complaints = [];
    page.foreign = [];
    page.on("pageerror", (error) => page.complaints.push(String(error)));
    page.on("console", (message) => message.type() === "error" && !/Failed to load resource/.test(message.text()) && page.complaints.push(message.text()));
    page.on("request", (sent) => sent.url().startsWith(server.url) || page.foreign.push(sent.url()));
    if (FROM_DISK) {
      await context.route(/\/console\/app\.(js|css)$/, (route) => {
        const name = route.request().url().split("/").pop();
        const body = gunzipSync(readFileSync(new URL(`../../crates/console/pages/${name}.gz`, import.meta.url)));
        return route.fulfill({ body, contentType: name.endsWith("js") ? "text/javascript" : "text/css" });
      });
    }
    return page;
  };
  return { open, close };
}

/** Signs in with a token, as a user does, and waits for the first page. */
export async function signIn(page, server, token = server.token) {
  await page.goto(`${server.url}/console/`);
  await page.getByLabel("Bearer token").fill(token);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
}

/** Waits until a check holds, and says how it failed if it does not. */
export async function until(check, milliseconds = 30_000) {
  const ends = Date.now() + milliseconds;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > ends) throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

/** Nothing went wrong in the page, and it asked nobody but its server. */
export function isClean(page) {
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(page.foreign, []);
}

const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** No violation of the rules for accessibility. axe is put in past the page's policy, which refuses it as it should. */
export async function isAccessible(page) {
  const session = await page.context().newCDPSession(page);
  const run = `${AXE}; axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(", "))))`;
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression: run, awaitPromise: true, allowUnsafeEvalBlockedByCSP: true });
  assert.equal(exceptionDetails, undefined);
  assert.deepEqual(JSON.parse(result.value), []);
}
