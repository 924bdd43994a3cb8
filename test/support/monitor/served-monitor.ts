import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { startMonitor, type MonitorOptions } from '../../../src/monitor/start-monitor.ts';

export interface LoggedLine {
  readonly level: 'info' | 'warn' | 'error';
  readonly facts: object;
  readonly message: string;
}

export type ServedMonitor = Awaited<ReturnType<typeof serveMonitor>>;

export interface RawRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** A monitor on a free port, by default of a healthy worker. */
export async function serveMonitor(options: Partial<MonitorOptions> = {}) {
  const logged: LoggedLine[] = [];
  const line =
    (level: LoggedLine['level']) =>
    (facts: object, message: string): void =>
      void logged.push({ level, facts, message });
  const monitor = await startMonitor({
    listen: { host: '127.0.0.1', port: 0 },
    health: {
      worker: () => Promise.resolve({ isReady: true, problems: [] }),
      sinks: () => Promise.resolve([{ name: 'warehouse', problem: null }]),
    },
    metrics: () => Promise.resolve({ contentType: 'text/plain', text: '' }),

    log: { info: line('info'), warn: line('warn'), error: line('error') },
    ...options,
  });
  return {
    monitor,
    logged,
    get: (path: string, request?: RawRequest) => sendRaw(monitor.url, path, request),
    [Symbol.asyncDispose]: () => monitor[Symbol.asyncDispose](),
  };
}

/** Unlike fetch, sends the given Host header and does not normalize the path. */
export async function sendRaw(url: string, path: string, request: RawRequest = {}): Promise<Answer> {
  const { hostname, port } = new URL(url);
  const outgoing = httpRequest({
    host: hostname,
    port,
    path,
    method: request.method ?? 'GET',
    headers: request.headers ?? {},
    agent: false,
  });
  outgoing.end(request.body);
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) };
}
