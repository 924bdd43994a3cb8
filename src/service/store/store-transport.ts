import type { HttpAnswer, HttpTransport } from '../../source/api/http-transport.ts';
import type { FromStoreProcess, ToStoreProcess } from './store-messages.ts';

type Answer = Extract<ToStoreProcess, { kind: 'answer' }>;

/** Calls of the process of a sync on their way to the service, which are answered by `answered`. */
export interface StoreTransport extends HttpTransport {
  answered(answer: Answer): void;
}

/** What `http-transport.ts` is to a socket, over the channel to the parent process. The parent keeps the time limit. */
export function openStoreTransport(send: (message: FromStoreProcess) => void): StoreTransport {
  const waiting = new Map<number, (answer: HttpAnswer) => void>();
  let lastId = 0;
  return {
    send: (request, signal) =>
      new Promise((resolve, reject) => {
        signal.throwIfAborted();
        lastId += 1;
        const id = lastId;
        const onAbort = (): void => {
          waiting.delete(id);
          reject(signal.reason as Error);
        };
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.set(id, (answer) => {
          signal.removeEventListener('abort', onAbort);
          resolve(answer);
        });
        send({ kind: 'call', id, body: request.body ?? '' });
      }),
    stream: () => Promise.reject(new TypeError('a sync of a store downloads nothing')),
    answered({ id, status, text, retryAfter }) {
      const resolve = waiting.get(id);
      waiting.delete(id);
      resolve?.({ status, text, retryAfter, date: null, link: null, wireBytes: text.length });
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
