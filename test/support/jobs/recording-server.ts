import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen } from '../listen.ts';

export interface Arrival {
  /** Milliseconds since the server started, by a monotonic clock. */
  readonly at: number;
  /** The process that sent it. */
  readonly from: string;
}

export type RecordingServer = Awaited<ReturnType<typeof startRecordingServer>>;

/**
 * A service behind a budget that records every call and its time. `GET /start` is answered when `processes` processes
 * have asked, so that all start together.
 */
export async function startRecordingServer(options: {
  readonly processes?: number;
  readonly answer?: (response: ServerResponse, arrival: Arrival, index: number) => void | Promise<void>;
}) {
  const { processes = 1, answer = (response) => void response.end() } = options;
  const startedAt = performance.now();
  const now = (): number => performance.now() - startedAt;
  const arrivals: Arrival[] = [];
  const ready: ServerResponse[] = [];
  const watchers = new Set<() => void>();
  let underWay = 0;
  let most = 0;

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.url === '/start') {
      ready.push(response);
      if (ready.length >= processes) for (const waiting of ready) waiting.end();
      return;
    }
    const arrival = { at: now(), from: String(request.headers['x-process']) };
    most = Math.max(most, ++underWay);
    response.once('close', () => (underWay -= 1));
    arrivals.push(arrival);
    for (const watch of watchers) watch();
    await answer(response, arrival, arrivals.length - 1);
  };

  const server = createServer((request, response) => void handle(request, response));
  const { origin, close } = await listen(server);

  return {
    url: origin,
    arrivals: arrivals as readonly Arrival[],
    /** The highest number of concurrent calls. */
    most: () => most,
    now,
    /** Resolves when the recorded calls satisfy the condition. */
    until: (isEnough: (arrivals: readonly Arrival[]) => boolean) =>
      new Promise<void>((resolve) => {
        const watch = (): void => {
          if (!isEnough(arrivals)) return;
          watchers.delete(watch);
          resolve();
        };
        watchers.add(watch);
        watch();
      }),
    [Symbol.asyncDispose]: close,
  };
}

/** The highest number of arrivals within any span of so many milliseconds. */
export function mostWithin(spanMs: number, arrivals: readonly Arrival[]): number {
  const times = arrivals.map(({ at }) => at).sort((a, b) => a - b);
  return Math.max(0, ...times.map((end) => times.filter((at) => at > end - spanMs && at <= end).length));
}

/** The highest number of arrivals within any 1000 ms. */
export function mostInASecond(arrivals: readonly Arrival[]): number {
  return mostWithin(1_000, arrivals);
}

export function countBetween(arrivals: readonly Arrival[], from: number, to: number): number {
  return arrivals.filter(({ at }) => at >= from && at < to).length;
}
