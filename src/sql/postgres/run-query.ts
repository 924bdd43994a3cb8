import type pg from 'pg';
import { usage } from '../../core/errors.ts';
import type { Connections } from './connections.ts';
import { settingSql } from './session.ts';
import { readSettingsIn } from './transaction-settings.ts';
import { openEnding } from './without-timeout.ts';

export type QuerySession = Readonly<Awaited<ReturnType<typeof openQuerySession>>>;

export interface TextRows {
  readonly columns: readonly TextColumn[];
  readonly rows: readonly (readonly (string | null)[])[];
}

export interface TextColumn {
  readonly name: string;
  /** The object id of its type. */
  readonly type: number;
}

interface QueryOptions {
  /** Connects as a role that may read the queried data, and nothing else. */
  readonly connect: Connections['connect'];
  readonly schema: string;
  /** Snapshot exported by another transaction: both see the same state. */
  readonly state: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Ten times the longest answer that an agent gets, in the longest characters. */
const mostAnswerBytes = 16 * 1024 * 1024;

const tooLong =
  'sql: the answer has more than 16 MiB. Ask for fewer columns, fewer rows, parts of long values.';

const asText = { getTypeParser: () => (text: string) => text };

/**
 * Opens a connection for an untrusted statement, in a transaction that writes nothing and is never committed. Once the
 * signal is aborted, the server cancels the running statement, and queries reject with the signal's reason. They reject
 * with USAGE where an answer is longer than 16 MiB: the connection ends then.
 */
export async function openQuerySession(options: QueryOptions) {
  const { connect, schema, state, timeoutMs, signal } = options;
  const { client, server, end } = await openEnding(connect, signal);
  // An answer is buffered whole, errors and notices too, which quote values of any length.
  const { stream } = client.connection;
  let bytes = 0;
  stream.on('data', (part: Uint8Array) => {
    bytes += part.length;
    if (bytes > mostAnswerBytes) stream.destroy(usage(tooLong));
  });
  const orAborted = async <Result>(work: Promise<Result>): Promise<Result> => {
    try {
      return await work;
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  };
  /** Every value as the server writes it. One statement: the server takes no second one this way. */
  const ask = async (
    text: string,
    values: readonly (string | number | readonly string[])[] = [],
  ): Promise<TextRows> => {
    signal.throwIfAborted();
    bytes = 0;
    // `types` is not in the types of `pg` with `rowMode`; without values it would use the simple protocol.
    const query = { text, values: [...values], rowMode: 'array', types: asText, queryMode: 'extended' };
    const { fields, rows } = await orAborted(
      client.query<(string | null)[]>(query as unknown as pg.QueryArrayConfig),
    );
    return { columns: fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID })), rows };
  };
  try {
    const timeout = settingSql({ statement_timeout: String(timeoutMs) }, 'transaction');
    await orAborted(
      client.query(
        `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '${state}'; ${readSettingsIn(schema)}; ${timeout}`,
      ),
    );
    const { rows } = await ask('SELECT pg_catalog.pg_backend_pid()');
    server.pid = Number(rows[0]?.[0] ?? 0);
  } catch (error) {
    await end().catch(() => undefined);
    throw error;
  }
  return { ask, [Symbol.asyncDispose]: async () => await end().catch(() => undefined) };
}
