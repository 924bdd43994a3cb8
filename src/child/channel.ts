import { SyncError } from '../core/errors.ts';

/** What a process answers: a function for each name. */
export type Calls = Readonly<Record<string, (given: never) => unknown>>;

/**
 * Has the other process call a function of its `Calls`. Rejects with the `SyncError` that the function threw; calls
 * begin in the order in which they are asked for.
 */
export type Ask<Theirs extends Calls> = <Name extends keyof Theirs & string>(
  name: Name,
  given: Parameters<Theirs[Name]>[0],
) => Promise<Awaited<ReturnType<Theirs[Name]>>>;

/** Gives the error to send for one that is no `SyncError`. */
export type Explain = (error: unknown, name: string, given: unknown) => SyncError;

export type Message =
  | { readonly kind: 'call'; readonly id: number; readonly name: string; readonly given: unknown }
  | { readonly kind: 'result'; readonly id: number; readonly result: unknown }
  /** Without the cause, which stays in its process. */
  | {
      readonly kind: 'error';
      readonly id: number;
      readonly error: Pick<SyncError, 'message' | 'code' | 'recovery' | 'context'>;
    };

interface Waiting {
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}

export type Channel<Theirs extends Calls> = ReturnType<typeof openChannel<Theirs>>;

/** One side of the messages between two processes: sends calls, and answers those of the other side with `own`. */
export function openChannel<Theirs extends Calls>(
  send: (message: Message) => void,
  own: Calls,
  explain: Explain,
) {
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let closed: Error | null = null;
  const answer = async ({ id, name, given }: Extract<Message, { kind: 'call' }>): Promise<void> => {
    try {
      const called = own[name];
      if (called === undefined) throw new TypeError(`no call is named ${name}`);
      send({ kind: 'result', id, result: await called(given as never) });
    } catch (thrown) {
      const error = thrown instanceof SyncError ? thrown : explain(thrown, name, given);
      const { message, code, recovery, context } = error;
      send({ kind: 'error', id, error: { message, code, recovery, context } });
    }
  };
  const ask: Ask<Theirs> = (name, given) => {
    const answered = new Promise<never>((resolve, reject) => {
      if (closed !== null) return reject(closed);
      lastId += 1;
      waiting.set(lastId, { resolve, reject });
      send({ kind: 'call', id: lastId, name, given });
    });
    // The caller may await it later, or not at all once another call has failed.
    answered.catch(() => undefined);
    return answered;
  };
  return {
    ask,
    /** To be called with every message of the other process. */
    receive: (message: Message): void => {
      if (message.kind === 'call') return void answer(message);
      const one = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.kind === 'result') return one?.resolve(message.result as never);
      const { message: text, ...options } = message.error;
      one?.reject(new SyncError(text, options));
    },
    /** No answer comes: calls that wait and later ones reject with the error of the first `close`. */
    close: (error: Error): void => {
      closed ??= error;
      for (const { reject } of waiting.values()) reject(closed);
      waiting.clear();
    },
  };
}

/** For functions whose failures are faults of this program. */
export function explainedAs(what: string, code: SyncError['code'], recovery: SyncError['recovery']): Explain {
  return (error) => {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return new SyncError(`${what} (${name}: ${message.slice(0, 200)}). This is a bug: report it.`, {
      code,
      recovery,
    });
  };
}
