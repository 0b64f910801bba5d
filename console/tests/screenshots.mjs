// Makes the pictures in docs/console: a server with some load, in both themes.
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { signIn, startBrowser, startServer } from "./browser.mjs";

const target = fileURLToPath(new URL("../../docs/console/", import.meta.url));
mkdirSync(target, { recursive: true });
const server = await startServer();
const browser = await startBrowser();

async function load() {
  const role = { metadata: { name: "load" }, rules: [{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }] };
  await server.api("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role);
  const subjects = [{ kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: "system:serviceaccounts" }];
  await server.api("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", { metadata: { name: "load" }, roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "load" }, subjects });
  const spec = { selector: { matchLabels: { app: "web" } }, replicas: 2, template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "web", image: "example/web:1" }] } } };
  await server.api("POST", "/apis/apps/v1/namespaces/default/deployments", { metadata: { name: "web" }, spec });
  const applied = (manager, more) => server.api("PATCH", `/apis/apps/v1/namespaces/default/deployments/web?fieldManager=${manager}&force=true`, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, ...more }, { "content-type": "application/apply-patch+yaml" });
  await applied("helm", { metadata: { name: "web", labels: { team: "shop" } } });
  await applied("autoscaler", { spec: { replicas: 4 } });
  await applied("rollout", { spec: { template: { spec: { containers: [{ name: "web", image: "example/web:2" }] } } } });
  for (let at = 0; at < 120; at++) await server.api("POST", "/api/v1/namespaces/default/configmaps", { metadata: { name: `settings-${at}`, labels: { app: "web" } }, data: { text: "x".repeat(3000) } });
  for (let at = 0; at < 40; at++) await server.api("POST", "/api/v1/namespaces/default/pods", { metadata: { name: `web-${at}`, labels: { app: "web" } }, spec: { containers: [{ name: "web", image: "example/web:1" }] } });
  const names = ["scheduler", "controller-manager", "ingress", "metrics-agent", "leaky-operator"];
  const tokens = await Promise.all(names.map((name) => server.account(name)));
  const rounds = async (at, milliseconds, request) => {
    while (!stopped) {
      await request(tokens[at]);
      await new Promise((done) => setTimeout(done, milliseconds * (0.5 + Math.random())));
    }
  };
  const get = (path, agent) => (token) => server.call("GET", path, undefined, token, { "user-agent": agent });
  const put = (token) => server.call("PATCH", "/api/v1/namespaces/default/configmaps/settings-1", { data: { at: String(Date.now()) } }, token, { "content-type": "application/merge-patch+json", "user-agent": "controller-manager/v1.37.0" });
  return Promise.all([
    rounds(0, 60, get("/api/v1/pods?limit=50", "kube-scheduler/v1.37.0")),
    rounds(1, 80, put),
    rounds(2, 90, get("/api/v1/namespaces/default/services", "ingress/2.1")),
    rounds(3, 700, get("/api/v1/namespaces/monitoring/secrets/token", "metrics-agent/0.9")),
    ...Array.from({ length: 4 }, () => rounds(4, 40, get("/api/v1/configmaps", "leaky-operator/0.3"))),
  ]);
}

let stopped = false;
try {
  const loading = load();
  const page = await browser.open(server, { viewport: { width: 1280, height: 900 } });
  await signIn(page, server);
  await page.waitForTimeout(Number(process.env.CONSOLE_SECONDS ?? 150) * 1000);
  const shoot = async (name, at, ready) => {
    if (at) await page.goto(`${server.url}/console/#/${at}`);
    await page.getByText(ready).first().waitFor();
    await page.waitForTimeout(1000);
    // WebP, which page.screenshot does not make, has a third of the bytes.
    const session = await page.context().newCDPSession(page);
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 70 });
    writeFileSync(`${target}${name}.webp`, Buffer.from(data, "base64"));
    if (process.env.CONSOLE_PNG) await page.screenshot({ path: `${process.env.CONSOLE_PNG}/${name}.png` });
  };
  await shoot("now-dark", "", "leaky-operator");
  await page.getByRole("button", { name: "light colours" }).click();
  await shoot("now-light", "", "leaky-operator");
  await shoot("objects-light", "objects/core/pods", "web-1");
  await page.getByRole("button", { name: "dark colours" }).click();
  await shoot("objects-dark", "objects/core/pods", "web-1");
  await shoot("object-dark", "objects/apps/deployments/default/web?tab=fields", "replicas");
  await page.goto(`${server.url}/console/#/extensions/requests`);
  await page.getByLabel("Path").fill("/apis/apps/v1/namespaces/default/deployments/web");
  await page.getByLabel("User", { exact: true }).fill("system:serviceaccount:default:ingress");
  await page.getByLabel("Groups, separated by commas").fill("system:serviceaccounts, system:authenticated");
  await page.getByRole("button", { name: "Try" }).click();
  await shoot("request-dark", "", "ClusterRoleBinding");
  await page.setViewportSize({ width: 320, height: 640 });
  await shoot("phone-dark", "now", "leaky-operator");
  stopped = true;
  await loading;
} finally {
  stopped = true;
  await browser.close();
  await server.stop();
}
