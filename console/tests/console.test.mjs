// The console in a real browser against a real server.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isAccessible, isClean, signIn, startBrowser, startServer, until } from "./browser.mjs";

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

const configMap = (name, data = {}, more = {}) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...more }, data });
const create = (object, namespace = "default") => server.api("POST", `/api/v1/namespaces/${namespace}/configmaps`, object);

test("a browser at / is led to the console, signs in, and out", async () => {
  const page = await browser.open(server);
  await page.goto(`${server.url}/`);
  assert.equal(page.url(), `${server.url}/console/`);
  await page.getByLabel("Bearer token").fill("nobody");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
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

test("the client that causes a storm of lists is found with two clicks", async () => {
  const page = await browser.open(server);
  await Promise.all(Array.from({ length: 200 }, (_, at) => create(configMap(`storm-${at}`, { text: "x".repeat(2000) }))));
  const tokens = await Promise.all(Array.from({ length: 40 }, (_, at) => server.account(`client-${at}`)));
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

test("a long table of pods scrolls without being in the document as a whole", async () => {
  const many = Number(process.env.CONSOLE_ROWS ?? 400);
  await server.api("POST", "/api/v1/namespaces", { metadata: { name: "long" } });
  let at = 0;
  const name = (number) => `row-${String(number).padStart(6, "0")}`;
  const fill = async () => {
    while (at < many) await server.api("POST", "/api/v1/namespaces/long/pods", { metadata: { name: name(at++) }, spec: { containers: [{ name: "c", image: "example/c:1" }] } });
  };
  await Promise.all(Array.from({ length: 24 }, fill));
  const page = await browser.open(server);
  await signIn(page, server);
  await page.goto(`${server.url}/console/#/objects/core/pods/long`);
  const began = Date.now();
  await page.getByText(name(0)).waitFor();
  const first = Date.now() - began;
  await page.getByRole("status").getByText(`${many} of ${many}, live`).waitFor({ timeout: 120_000 });
  console.log(`# ${many} pods: the first after ${first} ms, all after ${Date.now() - began} ms`);
  await page.locator(".tall").evaluate((place) => (place.scrollTop = place.scrollHeight));
  await page.getByText(name(many - 1)).waitFor();
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
  await page.getByText("It would be created.").waitFor();
  await area.fill((await area.inputValue()).replace("name: try", "name: evil"));
  await until(async () => {
    await button.click();
    await page.getByText("ValidatingAdmissionPolicy 'no-evil'").waitFor({ timeout: 1000 });
  });
  const said = page.getByRole("group", { name: "What policies say" });
  await said.getByText("!object.metadata.name.startsWith('evil')").waitFor();
  await said.getByText("fails").waitFor();
  await said.getByText("evil names are refused").waitFor();
  await isAccessible(page);
  assert.equal((await server.call("GET", "/api/v1/namespaces/default/configmaps/try")).code, 404);
  await page.goto(`${server.url}/console/#/extensions/requests`);
  await page.getByLabel("Path").fill("/api/v1/pods");
  await page.getByLabel("User", { exact: true }).fill("system:kube-scheduler");
  await page.getByText("with another audit policy").click();
  await page.getByLabel("Audit policy").fill("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n  users: [eve]\n- level: Request\n");
  await page.getByRole("button", { name: "Try" }).click();
  await page.getByText("workload-high").first().waitFor();
  await page.getByText("by rule 2").waitFor();
  await page.getByRole("group", { name: "Authorizers" }).getByText("ClusterRoleBinding").waitFor();
  await isAccessible(page);
  await page.goto(`${server.url}/console/#/extensions/authorization`);
  await page.getByLabel("Resource").fill("deploy");
  await page.getByRole("button", { name: "Who can?" }).click();
  await page.getByText("Group system:masters").waitFor();
  await isAccessible(page);
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
  for (const [tab, want] of [["yaml", "replicas: 1"], ["events", "There are no events"], ["family", "child"], ["fields", "selector"], ["history", "keeps no history"], ["apply", "Only the fields"], ["explain", "revisionHistoryLimit"], ["access", "cluster-admin"]]) {
    await page.goto(`${at}?tab=${tab}`);
    if (tab === "explain") await page.locator("summary", { hasText: "spec" }).first().click();
    await page.locator("main").getByText(want).first().waitFor();
    await isAccessible(page);
  }
  await page.getByLabel("User", { exact: true }).fill("jane");
  await page.getByRole("button", { name: "Try" }).click();
  await page.getByText("Not allowed").waitFor();
  await page.getByRole("group", { name: "Authorizers" }).getByText("RBAC").first().waitFor();
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

test("every page fits a phone, and all can use it", async () => {
  const page = await browser.open(server, { viewport: { width: 320, height: 640 }, colorScheme: "light" });
  await signIn(page, server);
  const object = ["yaml", "apply", "fields", "access"].map((tab) => `objects/core/configmaps/default/edited?tab=${tab}`);
  const extensions = ["definitions", "admission", "authorization", "requests", "certificates"].map((tab) => `extensions/${tab}`);
  for (const at of ["now", "client?user=kubernetes-admin", "objects", "find?q=edited", "objects/core/configmaps", ...object, ...extensions]) {
    await page.goto(`${server.url}/console/#/${at}`);
    await page.locator("main h1").waitFor();
    await page.locator("main").getByText(/\w/).first().waitFor();
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 320, `${at} is ${width} pixels wide`);
    await isAccessible(page);
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

test("conflicts of an apply are decided field by field", async () => {
  await create(configMap("applied"));
  const apply = (manager, data) => server.call("PATCH", `/api/v1/namespaces/default/configmaps/applied?fieldManager=${manager}`, configMap("applied", data, {}), server.token, { "content-type": "application/apply-patch+yaml" });
  assert.equal((await apply("painter", { "wall.colour": "white", floor: "oak" })).code, 200);
  const page = await browser.open(server);
  await signIn(page, server);
  const at = `${server.url}/console/#/objects/core/configmaps/default/applied`;
  await page.goto(`${at}?tab=apply`);
  const area = page.getByLabel("The fields to apply, as YAML");
  await area.fill(`${await area.inputValue()}data:\n  wall.colour: red\n  floor: tiles\n  roof: slate\n`);
  await page.getByRole("button", { name: "Dry run and compare" }).click();
  await page.getByText("Other managers have 2 fields").waitFor();
  await isAccessible(page);
  const conflict = (field) => page.getByRole("radiogroup", { name: field });
  await conflict(".data.wall.colour").getByLabel("take it over").check();
  await conflict(".data.floor").getByLabel("leave it to them").check();
  await page.getByRole("button", { name: "Go on with these decisions" }).click();
  await page.locator(".new", { hasText: "wall.colour: red" }).waitFor();
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await page.getByText("Applied.").waitFor();
  const stored = await server.api("GET", "/api/v1/namespaces/default/configmaps/applied");
  assert.deepEqual(stored.data, { "wall.colour": "red", floor: "oak", roof: "slate" });
  // What was applied is there the next time, and each line has the name of its manager.
  assert.match(await area.inputValue(), /roof: slate/);
  await page.goto(`${at}?tab=fields`);
  await page.locator(".managed div", { hasText: "floor: oak" }).locator("xpath=self::*[contains(@title, 'painter')]").waitFor();
  await page.locator(".managed div", { hasText: "roof: slate" }).locator("xpath=self::*[contains(@title, 'ferrokube-console')]").waitFor();
  isClean(page);
});

test("definitions show what their rules may cost", async () => {
  const schema = { type: "object", properties: { spec: { type: "object", properties: { names: { type: "array", maxItems: 100, items: { type: "string", maxLength: 50 }, "x-kubernetes-validations": [{ rule: "self.all(n, n.startsWith('a'))" }] } } } } };
  const versions = [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema } }];
  const names = { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" };
  await server.api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", { metadata: { name: "widgets.example.com" }, spec: { group: "example.com", scope: "Namespaced", names, versions } });
  const page = await browser.open(server);
  await signIn(page, server);
  await page.goto(`${server.url}/console/#/extensions/definitions`);
  await page.getByRole("button", { name: "Cost of the rules of widgets.example.com" }).click();
  await page.getByText("properties[spec].properties[names]").waitFor();
  await page.getByText("1 rules").waitFor();
  await isAccessible(page);
  isClean(page);
});
