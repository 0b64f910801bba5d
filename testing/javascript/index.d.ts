/** What to start. */
export interface Settings {
  /** Files with CustomResourceDefinitions, and folders of such files. */
  crds?: string[];
  /** Flags of kube-apiserver. */
  flags?: string[];
  /** Leave deleted namespaces, owned objects and service accounts alone. */
  bare?: boolean;
  /** A folder for server.log and audit.log; a temporary one without. */
  logs?: string;
  /** The program, if it is not the one of the package for this platform. */
  binary?: string;
}

export interface TestServer {
  readonly url: string;
  /** The authority of the server's certificate, in PEM. */
  readonly ca: string;
  /** The administrator's. */
  readonly token: string;
  /** The path of a file that speaks for the administrator. */
  readonly kubeconfig: string;
  readonly logs: string;
  readonly ready: Record<string, unknown>;
  reset(options?: { keepDefinitions?: boolean }): Promise<{ removed: number; restored: number; resourceVersion: string }>;
  user(name: string, options?: { groups?: string[]; clusterRole?: string; namespace?: string }): Promise<string>;
  request(method: string, target: string, body?: unknown): Promise<{ status: number; body: any }>;
  stop(options?: { keepLogs?: boolean }): Promise<void>;
}

export function start(settings?: Settings): Promise<TestServer>;
export function program(): string;
