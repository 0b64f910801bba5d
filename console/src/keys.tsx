// The keys of the whole program.
import { useEffect, useRef } from "preact/hooks";

/** After `g`. */
const GO: Record<string, [string, string]> = {
  n: ["#/now", "now"],
  o: ["#/objects", "all kinds"],
  e: ["#/extensions", "extensions"],
  p: ["#/objects/core/pods", "pods"],
  d: ["#/objects/apps/deployments", "deployments"],
  s: ["#/objects/core/services", "services"],
  c: ["#/objects/core/configmaps", "config maps"],
  i: ["#/objects/core/nodes", "nodes"],
  v: ["#/objects/core/events", "events"],
};

function isTyping(): boolean {
  const at = document.activeElement;
  return at instanceof HTMLInputElement || at instanceof HTMLTextAreaElement || at instanceof HTMLSelectElement;
}

/** Moves the focus along the links of the rows. */
function step(by: number) {
  const links = [...document.querySelectorAll<HTMLElement>("main tbody a")];
  const at = links.indexOf(document.activeElement as HTMLElement);
  links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

export function useKeys(help: () => void) {
  useEffect(() => {
    let going = 0;
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") return (document.activeElement as HTMLElement | null)?.blur();
      if (isTyping()) return;
      const goes = GO[event.key];
      if (going > event.timeStamp && goes) {
        location.hash = goes[0];
      } else if (event.key === "g") {
        going = event.timeStamp + 1500;
        return;
      } else if (event.key === "/") {
        document.querySelector<HTMLInputElement>("#find")?.focus();
        event.preventDefault();
      } else if (event.key === "?") help();
      else if (event.key === "j") step(1);
      else if (event.key === "k") step(-1);
      going = 0;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

export function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const row = (keys: string, what: string) => (
    <>
      <dt><kbd>{keys}</kbd></dt>
      <dd>{what}</dd>
    </>
  );
  return (
    <dialog ref={dialog} onClose={close} aria-label="Keys">
      <dl class="facts">
        {row("/", "find objects and kinds")}
        {Object.entries(GO).map(([name, [, what]]) => row(`g ${name}`, what))}
        {row("j, k", "next and previous row, Enter opens it")}
        {row("Esc", "leave a field, close this")}
        {row("?", "this")}
      </dl>
      <form method="dialog"><button>Close</button></form>
    </dialog>
  );
}
