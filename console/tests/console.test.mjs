// The console in a real browser against a real server.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { signIn, startBrowser, startOnDisk, startServer, until } from "./browser.mjs";

const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

let server;
let browser;

before(async () => {
  server = await startServer();
  browser = await startBrowser();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Nothing went wrong in the page, and it asked nobody but its server. */
function isClean(page) {
  assert.deepEqual(page.complaints, []);
  assert.deepEqual(page.foreign, []);
}

/** No violation of the rules for accessibility. axe is put in past the page's policy, which refuses it as it should. */
async function isAccessible(page) {
  const session = await page.context().newCDPSession(page);
  const run = `${AXE}; axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join(", "))))`;
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression: run, awaitPromise: true, allowUnsafeEvalBlockedByCSP: true });
  assert.equal(exceptionDetails, undefined);
  assert.deepEqual(JSON.parse(result.value), []);
}

const configMap = (name, data = {}, more = {}) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...more }, data });
const create = (object, namespace = "default") => server.api("POST", `/api/v1/namespaces/${namespace}/configmaps`, object);

test("a browser at / is led to the console, signs in, and out", async () => {
  const page = await browser.open(server);
  await page.goto(`${server.url}/`);
  assert.equal(page.url(), `${server.url}/console/`);
  await page.getByLabel("Bearer token").fill("nobody");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("does not accept this token").waitFor();
  await isAccessible(page);
  await signIn(page, server);
  const cookies = await page.context().cookies();
  assert.deepEqual(cookies.map(({ name, httpOnly, secure, sameSite }) => [name, httpOnly, secure, sameSite]), [["__Host-ferrokube-console", true, true, "Strict"]]);
  await page.getByText("ready", { exact: true }).waitFor();
  await isAccessible(page);
  await page.getByRole("button", { name: "light colours" }).click();
  await isAccessible(page);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Bearer token").waitFor();
  assert.deepEqual(await page.context().cookies(), []);
  isClean(page);
});

test("a link signs the administrator in once", async () => {
  const disk = await startOnDisk();
  try {
    const link = disk.link();
    assert.ok(link.startsWith(`${disk.url}/console/#code=`), link);
    const page = await browser.open(disk);
    await page.goto(link);
    await page.getByText("kubernetes-admin").waitFor();
    assert.equal(page.url(), `${disk.url}/console/#/now`);
    const other = await browser.open(disk);
    await other.goto(link);
    await other.getByLabel("Bearer token").waitFor();
    isClean(page);
  } finally {
    await disk.stop();
  }
});

test("the client that causes a storm of lists is found with two clicks", async () => {
  const page = await browser.open(server);
  for (let at = 0; at < 200; at++) await create(configMap(`storm-${at}`, { text: "x".repeat(2000) }));
  const tokens = [];
  for (let at = 0; at < 40; at++) tokens.push(await server.account(`client-${at}`));
  const role = { metadata: { name: "storm" }, rules: [{ apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list"] }] };
  await server.api("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role);
  const binding = { metadata: { name: "storm" }, roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "storm" }, subjects: [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "system:serviceaccounts" }] };
  await server.api("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding);
  await signIn(page, server);
  let storming = true;
  const get = (path, token, agent) => server.call("GET", path, undefined, token, { "user-agent": agent });
  const storm = (async () => {
    while (storming) {
      await Promise.all([
        ...tokens.map((token, at) => get("/api/v1/namespaces/default/configmaps/storm-1", token, `controller-${at}/1.0`)),
        ...Array.from({ length: 20 }, () => get("/api/v1/configmaps", tokens[17], "leaky-operator/0.3")),
      ]);
    }
  })();
  try {
    const rows = page.getByRole("region", { name: "Who costs what" }).locator("tbody tr");
    await until(async () => {
      assert.ok((await rows.count()) >= 20);
      assert.match(await rows.first().innerText(), /client-17[\s\S]*leaky-operator/);
    }, 60_000);
    await rows.first().getByRole("link").click();
    const requests = page.getByRole("region", { name: "Last requests" });
    await requests.getByText("/api/v1/configmaps").first().waitFor();
    await requests.getByRole("link").first().click();
    await page.getByText("authorization", { exact: true }).waitFor();
    await page.getByText("leaky-operator/0.3").waitFor();
  } finally {
    storming = false;
    await storm;
  }
  isClean(page);
});

test("objects are found by name, label and uid, and by the keys", async () => {
  const made = await create(configMap("needle-in-hay", {}, { labels: { lost: "yes" } }));
  const page = await browser.open(server);
  await signIn(page, server);
  for (const text of ["needle-in", "lost=yes", made.metadata.uid]) {
    await until(async () => {
      await page.keyboard.press("/");
      assert.equal(await page.evaluate(() => document.activeElement?.id), "find");
    });
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "needle-in-hay" }).waitFor();
    await page.locator("#find").fill("");
    await page.keyboard.press("Escape");
  }
  await isAccessible(page);
  await page.keyboard.type("gc");
  await page.getByRole("heading", { name: "configmaps" }).waitFor();
  await page.keyboard.type("?");
  await page.getByRole("dialog").waitFor();
  await isAccessible(page);
  isClean(page);
});

test("a table follows what others do", async () => {
  const page = await browser.open(server);
  await signIn(page, server);
  await server.api("POST", "/api/v1/namespaces", { metadata: { name: "lively" } });
  await page.goto(`${server.url}/console/#/objects/core/configmaps/lively`);
  const status = page.getByRole("status");
  await status.getByText("live").waitFor();
  await create(configMap("late"), "lively");
  await page.getByRole("link", { name: "late", exact: true }).waitFor();
  await isAccessible(page);
  await server.api("DELETE", "/api/v1/namespaces/lively/configmaps/late");
  await page.getByRole("link", { name: "late", exact: true }).waitFor({ state: "detached" });
  isClean(page);
});

test("a long table scrolls without being in the document as a whole", async () => {
  const many = Number(process.env.CONSOLE_ROWS ?? 3000);
  await server.api("POST", "/api/v1/namespaces", { metadata: { name: "long" } });
  for (let at = 0; at < many; at += 50) await Promise.all(Array.from({ length: Math.min(50, many - at) }, (_, one) => create(configMap(`row-${String(at + one).padStart(6, "0")}`), "long")));
  const page = await browser.open(server);
  await signIn(page, server);
  await page.goto(`${server.url}/console/#/objects/core/configmaps/long`);
  const began = Date.now();
  await page.getByText("row-000000").waitFor();
  const first = Date.now() - began;
  await page.getByRole("status").getByText("live").waitFor({ timeout: 120_000 });
  console.log(`# ${many} rows: the first after ${first} ms, all after ${Date.now() - began} ms`);
  await page.locator(".tall").evaluate((place) => (place.scrollTop = place.scrollHeight));
  await page.getByText(`row-${String(many - 1).padStart(6, "0")}`).waitFor();
  assert.ok((await page.locator("main tr").count()) < 200);
  isClean(page);
});

test("an object is edited after a dry run, and a conflict is shown", async () => {
  await create(configMap("edited", { colour: "red" }));
  const page = await browser.open(server);
  await signIn(page, server);
  await page.goto(`${server.url}/console/#/objects/core/configmaps/default/edited`);
  await page.getByRole("button", { name: "Edit" }).click();
  const area = page.getByLabel("The object as YAML");
  const change = async (from, to) => area.fill((await area.inputValue()).replace(from, to));
  await change("colour: red", "colour: 7");
  await page.getByRole("button", { name: "Dry run and compare" }).click();
  await page.getByRole("alert").waitFor();
  await change("colour: 7", "colour: green");
  await page.getByRole("button", { name: "Dry run and compare" }).click();
  await page.getByText("+ colour: green").or(page.locator(".new", { hasText: "colour: green" })).first().waitFor();
  // Another client is faster.
  await server.call("PATCH", "/api/v1/namespaces/default/configmaps/edited", { data: { shape: "round" } }, server.token, { "content-type": "application/merge-patch+json" });
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("alert").getByText("the object has been modified").waitFor();
  await page.getByRole("button", { name: "keep my changes" }).click();
  await page.locator(".gone", { hasText: "shape: round" }).waitFor();
  await isAccessible(page);
  await page.getByRole("button", { name: "Edit on" }).click();
  await change("colour: green", "colour: green\n  shape: round");
  await page.getByRole("button", { name: "Dry run and compare" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  const stored = await server.api("GET", "/api/v1/namespaces/default/configmaps/edited");
  assert.deepEqual(stored.data, { colour: "green", shape: "round" });
  isClean(page);
});

test("a policy and a flow schema can be tried out", async () => {
  const group = "/apis/admissionregistration.k8s.io/v1";
  const match = { resourceRules: [{ apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] }] };
  const spec = { failurePolicy: "Fail", matchConstraints: match, validations: [{ expression: "!object.metadata.name.startsWith('evil')", message: "evil names are refused" }] };
  await server.api("POST", `${group}/validatingadmissionpolicies`, { metadata: { name: "no-evil" }, spec });
  await server.api("POST", `${group}/validatingadmissionpolicybindings`, { metadata: { name: "no-evil" }, spec: { policyName: "no-evil", validationActions: ["Deny"] } });
  const page = await browser.open(server);
  await signIn(page, server);
  await page.goto(`${server.url}/console/#/extensions/admission`);
  const area = page.getByLabel("Object as YAML");
  const button = page.getByRole("button", { name: "Try" });
  await button.click();
  await page.getByText("It would be created as:").waitFor();
  await area.fill((await area.inputValue()).replace("name: try", "name: evil"));
  await until(async () => {
    await button.click();
    await page.getByText("ValidatingAdmissionPolicy 'no-evil'").waitFor({ timeout: 1000 });
  });
  await page.getByText("evil names are refused").waitFor();
  await isAccessible(page);
  assert.equal((await server.call("GET", "/api/v1/namespaces/default/configmaps/try")).code, 404);
  await page.goto(`${server.url}/console/#/extensions/flow`);
  await page.getByLabel("Path").fill("/api/v1/pods");
  await page.getByLabel("User", { exact: true }).fill("system:kube-scheduler");
  await page.getByRole("button", { name: "Try" }).click();
  await page.getByText("workload-high").first().waitFor();
  await page.goto(`${server.url}/console/#/extensions/definitions`);
  await page.getByText("There are no custom resources").waitFor();
  for (const tab of ["services", "flow", "certificates", "features"]) {
    await page.goto(`${server.url}/console/#/extensions/${tab}`);
    await page.locator("table").first().waitFor();
    await isAccessible(page);
  }
  isClean(page);
});

test("every part of an object can be read", async () => {
  const template = { metadata: { labels: { app: "parts" } }, spec: { containers: [{ name: "c", image: "example/c:1" }] } };
  const owner = await server.api("POST", "/apis/apps/v1/namespaces/default/deployments", { metadata: { name: "parts" }, spec: { selector: { matchLabels: { app: "parts" } }, template } });
  const reference = { apiVersion: "apps/v1", kind: "Deployment", name: "parts", uid: owner.metadata.uid };
  await create(configMap("child", {}, { ownerReferences: [reference] }));
  const page = await browser.open(server);
  await signIn(page, server);
  const at = `${server.url}/console/#/objects/apps/deployments/default/parts`;
  for (const [tab, want] of [["yaml", "replicas: 1"], ["events", "There are no events"], ["family", "child"], ["fields", "selector"], ["explain", "revisionHistoryLimit"], ["access", "cluster-admin"]]) {
    await page.goto(`${at}?tab=${tab}`);
    if (tab === "explain") await page.locator("summary", { hasText: "spec" }).first().click();
    await page.locator("main").getByText(want).first().waitFor();
    await isAccessible(page);
  }
  await page.getByLabel("User", { exact: true }).fill("jane");
  await page.getByRole("button", { name: "Ask" }).click();
  await page.getByText("Not allowed").waitFor();
  isClean(page);
});

test("a user without rights sees what is missing, and no data", async () => {
  const page = await browser.open(server);
  await signIn(page, server, await server.account("nobody"));
  await page.getByText("You may not read /console/api/now").waitFor();
  await page.goto(`${server.url}/console/#/objects/core/secrets`);
  await page.getByText("You may not list secrets").waitFor();
  isClean(page);
});

test("a session that has ended leads back to the sign-in", async () => {
  const page = await browser.open(server);
  await signIn(page, server);
  await page.context().clearCookies();
  await page.goto(`${server.url}/console/#/objects/core/pods`);
  await page.evaluate(() => localStorage.setItem("ferrokube-console-key", "x"));
  await page.reload();
  await page.getByLabel("Bearer token").waitFor();
  isClean(page);
});

test("texts of clients are shown and never run", async () => {
  const hostile = `<img src=x onerror=alert(1)><script>alert(2)</script>\u202eevil ${"a".repeat(1000)}`;
  await create(configMap("hostile", { markup: hostile, large: "y".repeat(900_000) }, { annotations: { markup: hostile } }));
  await server.api("POST", "/api/v1/namespaces/default/events", {
    metadata: { name: "hostile" }, involvedObject: { kind: "ConfigMap", name: "hostile", namespace: "default", uid: (await server.api("GET", "/api/v1/namespaces/default/configmaps/hostile")).metadata.uid },
    reason: hostile.slice(0, 100), message: hostile.slice(0, 1000), type: "Warning", source: { component: "x" },
  });
  const page = await browser.open(server);
  let ran = false;
  page.on("dialog", (dialog) => ((ran = true), dialog.dismiss()));
  await signIn(page, server);
  await until(async () => {
    await server.call("GET", "/api/v1/namespaces/x", undefined, server.token, { "user-agent": "<script>alert(3)</script>" });
    await page.getByText("<script>alert(3)</script>").first().waitFor({ timeout: 3000 });
  });
  await page.goto(`${server.url}/console/#/objects/core/configmaps/default/hostile`);
  await page.getByText("onerror=alert(1)").first().waitFor();
  await page.goto(`${server.url}/console/#/objects/core/configmaps/default/hostile?tab=events`);
  await page.getByText("onerror=alert(1)").first().waitFor();
  await page.goto(`${server.url}/console/#/objects/core/events`);
  await page.getByText("onerror=alert(1)").first().waitFor();
  assert.equal(ran, false);
  assert.equal(await page.locator("img").count(), 0);
  isClean(page);
});

test("an extension server that answers nonsense breaks no other page", async () => {
  const page = await browser.open(server);
  await signIn(page, server);
  const table = { kind: "Table", metadata: {}, columnDefinitions: [{ name: "Name", type: "string", format: "name", priority: 0 }], rows: [{ cells: 7, object: { metadata: { name: {}, uid: [] } } }] };
  await page.route(/\/api\/v1\/secrets/, (route) => route.fulfill({ json: table }));
  await page.goto(`${server.url}/console/#/objects/core/secrets`);
  await page.locator("main").getByText(/cannot show|secrets/).first().waitFor();
  await page.goto(`${server.url}/console/#/objects/core/configmaps`);
  await page.getByRole("link", { name: "kube-root-ca.crt" }).first().waitFor();
  assert.deepEqual(page.foreign, []);
});

test("the page fits a phone", async () => {
  const page = await browser.open(server, { viewport: { width: 320, height: 640 } });
  await signIn(page, server);
  for (const at of ["now", "objects", "objects/core/configmaps", "objects/core/configmaps/default/edited", "extensions/flow"]) {
    await page.goto(`${server.url}/console/#/${at}`);
    await page.locator("main h1").waitFor();
    await page.locator("main").getByText(/\w/).first().waitFor();
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 320, `${at} is ${width} pixels wide`);
  }
  isClean(page);
});

test("a server that is gone is said to be unreachable, and the page goes on when it is back", async () => {
  const page = await browser.open(server);
  await signIn(page, server);
  await page.getByText("ready", { exact: true }).waitFor();
  await page.context().setOffline(true);
  await page.getByText("unreachable").waitFor();
  await page.context().setOffline(false);
  await page.getByText("ready", { exact: true }).waitFor();
  isClean(page);
});
