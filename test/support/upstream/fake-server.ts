import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { countArrivals, listen } from '../listen.ts';
import { type Answer, AnswerInstead, jsonAnswer, sendAnswer } from './answer.ts';
import {
  type CredentialState,
  type FakeRequest,
  type LoggedRequest,
  readRequest,
  withoutSecrets,
} from './fake-request.ts';
import type { Fault } from './faults.ts';

export interface FakeServerOptions {
  /** The right answer; may throw `AnswerInstead`. */
  readonly answer: (request: FakeRequest) => Answer;
  readonly credentialOf: (request: FakeRequest) => CredentialState;
  /** Says no to a request before it is worked on: a limit of the service. */
  readonly refuse?: (load: Load) => Answer | null;
}

export interface Load {
  /** Requests that are being answered, this one included. */
  readonly inFlight: number;
}

/** A service on port 0 of this machine. A client that breaks off, or is killed, does it no harm. */
export interface FakeServer extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string;
  /** Every request so far, in order of arrival. */
  readonly requests: readonly LoggedRequest[];
  /** Those since the last time this was asked. */
  takeRequests(): readonly LoggedRequest[];
  /** Resolves when `count` requests have arrived in all. */
  arrived(count: number): Promise<void>;
  /** The most requests that were in flight at once. */
  readonly peak: () => number;
  /** Requests wait for their answer until the returned function is called. Several holds add up. */
  hold(): () => void;
  /** Lets a fault happen. Of several that fit a request the one scripted first does, until it is used up. */
  script(fault: Fault): void;
  /** Ends all faults. */
  heal(): void;
  readonly openSockets: () => number;
}

export async function startFakeServer(options: FakeServerOptions): Promise<FakeServer> {
  const requests: LoggedRequest[] = [];
  const { check, arrived } = countArrivals(requests);
  const holds = new Set<Promise<void>>();
  let faults: { readonly fault: Fault; met: number; done: number }[] = [];
  let taken = 0;
  let inFlight = 0;
  let peak = 0;

  /** The effect of the first fault that is for this request. */
  const takeEffect = (logged: LoggedRequest): Fault['effect'] | null => {
    for (const entry of faults) {
      const { on = () => true, after = 0, times = 1, effect } = entry.fault;
      if (entry.done >= times || !on(logged)) continue;
      entry.met += 1;
      if (entry.met <= after) continue;
      entry.done += 1;
      return effect;
    }
    return null;
  };

  const log = (request: FakeRequest): LoggedRequest => {
    const { method, path } = request;
    const credential = options.credentialOf(request);
    const index = requests.length;
    const logged = { index, method, path, ...withoutSecrets(request), credential, status: null };
    requests.push(logged);
    check();
    return logged;
  };

  const respond = async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await readRequest(message);
    const logged = log(request);
    response.once('finish', () => {
      requests[logged.index] = { ...logged, status: response.statusCode };
    });
    const effect = takeEffect(logged);
    const refused = options.refuse?.({ inFlight }) ?? null;
    await Promise.all(holds);
    const right = (): Answer => refused ?? answerOf(options, request);
    const answer = effect === null ? right() : await effect(right, logged);
    if (typeof answer === 'function') await answer({ request: message, response, connectorId: '' });
    else sendAnswer(response, answer);
  };

  const server = createServer((message, response) => {
    inFlight += 1;
    peak = Math.max(peak, inFlight);
    response.once('close', () => (inFlight -= 1));
    // A client that goes away while it is answered is no failure of the service.
    respond(message, response).catch(() => message.socket.destroy());
  });
  const { origin, openSockets, close } = await listen(server);

  return {
    origin,
    requests,
    takeRequests() {
      const since = requests.slice(taken);
      taken = requests.length;
      return since;
    },
    arrived,
    peak: () => peak,
    hold() {
      const { promise, release } = pending();
      holds.add(promise);
      return () => {
        holds.delete(promise);
        release();
      };
    },
    script: (fault) => void faults.push({ fault, met: 0, done: 0 }),
    heal() {
      faults = [];
    },
    openSockets,
    [Symbol.asyncDispose]: close,
  };
}

function answerOf(options: FakeServerOptions, request: FakeRequest): Answer {
  try {
    return options.answer(request);
  } catch (error) {
    if (error instanceof AnswerInstead) return error.answer;
    // A fault of the fake itself: a test should see what it is.
    return jsonAnswer(500, { fake: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}

function pending(): { readonly promise: Promise<void>; readonly release: () => void } {
  let release = (): void => undefined;
  const promise = new Promise<void>((resolve) => (release = resolve));
  return { promise, release };
}
