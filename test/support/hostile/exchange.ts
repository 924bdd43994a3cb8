import type { IncomingMessage, ServerResponse } from 'node:http';
import type { JsonObject } from '../../../src/core/json.ts';

/** One execute call as the server got it. */
export interface HostileCall {
  /** Counts from 0 over the server's life. */
  readonly index: number;
  readonly at: number;
  readonly connectorId: string;
  readonly entity: string;
  readonly action: string;
  readonly params: JsonObject;
  /** The whole body: entity, action, params and whatever else was sent. */
  readonly body: JsonObject;
  readonly token: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The connector the call was for; empty for a call that is no execute. */
  readonly connectorId: string;
}

/** Answers one request, well or badly. */
export type Reply = (exchange: Exchange) => void | Promise<void>;
