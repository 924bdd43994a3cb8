import type { ServerResponse } from 'node:http';
import type { JsonValue } from '../../../src/core/json.ts';

/** What a service says to one request, before anything goes wrong with it. */
export interface Answer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

export function jsonAnswer(
  status: number,
  body: JsonValue,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(body),
  };
}

export function sendAnswer(response: ServerResponse, { status, headers, body }: Answer): void {
  response.writeHead(status, { ...headers, 'content-length': String(Buffer.byteLength(body)) });
  response.end(body);
}

/** Thrown anywhere while a request is worked on: the answer as it stands. */
export class AnswerInstead extends Error {
  readonly answer: Answer;

  constructor(answer: Answer) {
    super(`the answer is ${answer.status}`);
    this.answer = answer;
  }
}
