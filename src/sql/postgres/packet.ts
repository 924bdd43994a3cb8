import type { Duplex } from 'node:stream';
import pg from 'pg';
import { readText } from './text.ts';

/** A value as the server takes it. */
export type Bound =
  string | number | bigint | boolean | null | Buffer | readonly (string | number | Buffer | null)[];

/** A statement, and what to do with its answer. */
export interface Statement {
  readonly text: string;
  readonly values: readonly Bound[];
  /** What a `COPY ... FROM STDIN` reads. */
  readonly chunks: Iterable<Buffer>;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

export interface Answer {
  readonly columns: readonly string[];
  /** In the order of the columns. */
  readonly rows: readonly (readonly unknown[])[];
  /** How many rows were written or read. */
  readonly count: number;
}

/** The messages of `pg`'s connection that a packet is made of. */
interface Wire {
  readonly stream: Duplex;
  parse(message: { text: string; name: string }): void;
  bind(message: { values: readonly (string | Buffer | null)[] }): void;
  describe(message: { type: 'P'; name: string }): void;
  execute(message: { portal: string; rows: number }): void;
  sendCopyFail(why: string): void;
  sync(): void;
}

const copyDone = Buffer.from([0x63, 0, 0, 0, 4]);

/**
 * Sends statements in one go and waits once for all of their answers: a round trip, whatever their number. They run in
 * their order; behind one that fails none runs, and its error is that of all. A packet is what `pg` calls a query.
 */
export function packetOf(
  statements: readonly Statement[],
  heard: () => void,
  onFailure: (error: unknown) => void,
): pg.Submittable {
  const answers: Answer[] = [];
  let rows: unknown[][] = [];
  let fields: readonly Field[] = [];
  let readers: readonly Reader[] = [];
  let isOver = false;
  /** Of this process, while it wrote the packet. */
  let ownError: unknown = null;

  const fail = (error: unknown): void => {
    if (isOver) return;
    isOver = true;
    onFailure(ownError ?? error);
    for (const { reject } of statements) reject(ownError ?? error);
  };
  const send = async (wire: Wire): Promise<void> => {
    const { stream } = wire;
    stream.cork();
    try {
      for (const { text, values, chunks } of statements) {
        wire.parse({ text, name: '' });
        wire.bind({ values: values.map(boundValue) });
        wire.describe({ type: 'P', name: '' });
        wire.execute({ portal: '', rows: 0 });
        if (chunks === noChunks) continue;
        await sendChunks(stream, chunks, () => isOver);
        stream.write(copyDone);
      }
    } catch (error) {
      ownError = error;
      wire.sendCopyFail('the client has failed');
    }
    wire.sync();
    stream.uncork();
  };
  return {
    submit: (connection) => void send(connection as unknown as Wire),
    handleRowDescription: (message: { readonly fields: readonly Field[] }) => {
      ({ fields } = message);
      readers = fields.map(readerOf);
    },
    handleDataRow: (message: { readonly fields: readonly (string | null)[] }) => {
      rows.push(message.fields.map((text, index) => (text === null ? null : readers[index]?.(text))));
    },
    handleCommandComplete: ({ text }: { readonly text: string }) => {
      heard();
      const columns = fields.map(({ name }) => name);
      answers.push({ columns, rows, count: Number(/\d+$/.exec(text)?.[0] ?? 0) });
      rows = [];
      fields = [];
    },
    handleCopyInResponse: () => undefined,
    handleError: fail,
    handleReadyForQuery: () => {
      if (ownError !== null || answers.length < statements.length) {
        fail(new TypeError(`${answers.length} of ${statements.length} statements were answered`));
        return;
      }
      isOver = true;
      for (const [index, { resolve }] of statements.entries()) {
        const answer = answers[index];
        if (answer !== undefined) resolve(answer);
      }
    },
  } as pg.Submittable;
}

/** For a statement that reads nothing of the client. */
export const noChunks: Iterable<Buffer> = [];

/** Of more than one chunk, the server begins with the first ones while the rest is still being encoded. */
async function sendChunks(stream: Duplex, chunks: Iterable<Buffer>, isOver: () => boolean): Promise<void> {
  let sent = 0;
  try {
    for (const chunk of chunks) {
      // The server skips what follows its error up to the end of the packet.
      if (isOver() || stream.destroyed) return;
      if (sent === 1) stream.uncork();
      sent += 1;
      const header = Buffer.from([0x64, 0, 0, 0, 0]);
      header.writeUInt32BE(chunk.length + 4, 1);
      stream.write(header);
      if (!stream.write(chunk) && sent > 1) await drained(stream);
    }
  } finally {
    if (sent > 1) stream.cork();
  }
}

async function drained(stream: Duplex): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}

function boundValue(value: Bound): string | Buffer | null {
  if (value === null || typeof value === 'string' || Buffer.isBuffer(value)) return value;
  return typeof value === 'object' ? `{${value.map(element).join(',')}}` : textOf(value);
}

/** An integer with all of its digits: `String` gives only as many as a double needs. */
function textOf(value: string | number | bigint | boolean): string {
  const isLong = typeof value === 'number' && Number.isInteger(value) && Math.abs(value) < 1e21;
  return String(isLong ? BigInt(value) : value);
}

/** Of an array as the server reads it from a text. */
function element(value: string | number | Buffer | null): string {
  if (value === null) return 'NULL';
  const text = Buffer.isBuffer(value) ? `\\x${value.toString('hex')}` : textOf(value);
  return typeof value === 'number' ? text : `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
}

interface Field {
  readonly name: string;
  readonly dataTypeID: number;
}

type Reader = (text: string) => unknown;

function readerOf({ dataTypeID }: Field): Reader {
  if (dataTypeID === timestamptz) return instantReader();
  return ownReaders.get(dataTypeID) ?? pg.types.getTypeParser(dataTypeID, 'text');
}

/** Rows that one commit has written carry the same time, which is read once. */
function instantReader(): Reader {
  let [lastText, lastInstant] = ['', ''];
  return (text) => {
    if (text !== lastText) [lastText, lastInstant] = [text, new Date(text).toISOString()];
    return lastInstant;
  };
}

const { builtins } = pg.types;
const timestamptz: number = builtins.TIMESTAMPTZ;
/** Answers come as text; `json` stays text, and times are instants. */
const ownReaders: ReadonlyMap<number, Reader> = new Map<number, Reader>([
  [builtins.INT8, readInteger],
  [builtins.TEXT, readText],
  [builtins.VARCHAR, readText],
  [builtins.JSON, (text) => text],
]);

function readInteger(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}
