// Conditions of extensions: those that are not as they should be, with their reasons.
import { Text } from "./ui";

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
}

export function Conditions({ of, good }: { of: Condition[] | undefined; good: string[] }) {
  const wrong = good.filter((type) => of?.find((one) => one.type === type)?.status !== "True");
  const others = (of ?? []).filter((one) => !good.includes(one.type) && one.status === "True" && one.type !== "KubernetesAPIApprovalPolicyConformant");
  if (wrong.length === 0 && others.length === 0) return <span class="good">{good.join(", ")}</span>;
  const shown = [...wrong.map((type) => of?.find((one) => one.type === type) ?? { type, status: "Unknown" }), ...others] as Condition[];
  return <span class="warn"><Text of={shown.map((one) => `${one.status === "True" ? "" : "not "}${one.type}: ${one.reason ?? ""} ${one.message ?? ""}`).join("; ")} max={300} /></span>;
}
