import { createHash } from 'node:crypto';
import { writeJson } from '../../../core/json-text.ts';
import { instant, type Instant } from '../../../core/clock.ts';
import type { ConnectorName, RunId } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import type { CopiedConnector, CopiedRecord, CopiedTable, CopySource, FactBatch } from '../../copies.ts';
import { factColumns, factNames, type FactName, type FactRow, type FactValue } from '../../copies/facts.ts';
import { factCursor, factOrder, selectFacts } from '../../copies/select-facts.ts';
import { inPages, pageLength } from '../../copies/in-pages.ts';
import type { Holder, Pause } from '../../lease.ts';
import { parseColumns, parseNames } from '../../stored-json.ts';
import { checkWhole, noRun } from '../acquire.ts';
import { noteCopiedTo } from '../connectors.ts';
import type { Leases } from '../../postgres/lease/leases.ts';
import type { HeldConnector, Ledger } from '../ledger.ts';
import { tableAt } from '../../postgres/records/names.ts';
import { quoted } from '../../../sql/quoted.ts';
import { binaryType, columnValue } from '../../../sql/postgres/types.ts';
import type { Tx } from '../../../sql/postgres/session.ts';
import { fencedTransaction, readFenced } from '../transact.ts';

/** Every page is read in a snapshot that sees whether the lease still holds: pages of one lease are of one state. */
export async function openPostgresSource(
  ledger: Ledger,
  leases: Leases,
  connector: ConnectorName,
  holder: Holder,
): Promise<CopySource> {
  const taken = await leases.take(
    connector,
    holder,
    async (tx) => await checkWhole(tx, ledger.at, connector),
  );
  const held: HeldConnector = { ...taken, definitionHash: '', run: null };
  const ask = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await readFenced(ledger, held, work);
  try {
    return {
      connector: await ask(async (tx) => await describe(tx, ledger, connector)),
      records: (table, after) => {
        const sql = selectRows(ledger.at, connector, table);
        return inPages<CopiedRecord>(
          async (last, limit) =>
            await ask(async (tx) =>
              ((await tx.arrays(sql, { after: last?.row ?? after, limit })) as RawRow[]).map(copiedRecord),
            ),
        );
      },
      facts: () => readFacts(ledger, connector, ask),
      noteCopied: async ({ from, to }) =>
        await taken.inTurn(
          async () =>
            await fencedTransaction(ledger, held, noRun, async (tx) => {
              const copiedTo = writeJson({ from, to, at: instant(ledger.clock.now()) });
              await noteCopiedTo(tx, ledger.at, connector, copiedTo);
            }),
        ),
      [Symbol.asyncDispose]: async () => await taken.release(),
    };
  } catch (error) {
    await taken.release();
    throw error;
  }
}

interface ConnectorRow extends Pick<
  CopiedConnector,
  'baseUrl' | 'connectorId' | 'definition' | 'definitionHash'
> {
  readonly epoch: number;
  readonly newestSeq: number;
  readonly highestPartition: number;
}

type TableRow = Omit<CopiedTable, 'key' | 'stored' | 'declared' | 'evolved'> &
  Readonly<Record<'key' | 'stored' | 'declared' | 'evolved', string>>;

async function describe(
  tx: Tx,
  { at, sinkId, server: { place } }: Ledger,
  connector: ConnectorName,
): Promise<CopiedConnector> {
  const found = await tx.first<ConnectorRow>(
    `SELECT one.base_url, one.connector_id, one.definition, one.definition_hash, one.epoch, counter.seq AS newest_seq,
       (SELECT last_value FROM ${at}_sync_partitions_id_seq) AS highest_partition
     FROM ${at}_sync_connectors AS one JOIN ${at}_sync_counters AS counter ON counter.connector = one.connector
     WHERE one.connector = :connector`,
    { connector },
  );
  if (found === undefined) throw usage(`The sink at ${place} holds nothing of connector "${connector}".`);
  const { epoch, ...identity } = found;
  const pause = await tx.first<Pause>(
    `SELECT since, reason FROM ${at}_sync_pauses WHERE connector = :connector`,
    { connector },
  );
  const rows = await tx.rows<TableRow>(
    `SELECT entity, key, stored, declared, evolved, rows, deleted, last_row, as_of, taken_over, adopted_at, first_origin, table_id, described
     FROM ${at}_sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  const tables = rows.map(({ key, stored, declared, evolved, ...table }): CopiedTable => ({
    ...table,
    key: parseNames(key),
    stored: parseColumns(stored),
    declared: parseColumns(declared),
    evolved: parseColumns(evolved),
  }));
  // Whatever changes records takes the connector for a run first, which notes its epoch; a reset with data drops tables.
  const state = createHash('sha256')
    .update(JSON.stringify([epoch, tables]))
    .digest('hex');
  return { connector, sinkId, ...identity, state, pause: pause ?? null, tables };
}

const own =
  '_row, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash, _volatile_hash, _deleted_at, _partition'.split(
    ', ',
  );

function selectRows(at: string, connector: ConnectorName, { entity, stored }: CopiedTable): string {
  const names = [...own, ...stored.map(({ name }) => quoted(name))];
  const sql = `SELECT ${names.join(', ')} FROM ${tableAt(at, connector, entity)}
    WHERE _row > :after ORDER BY _row LIMIT :limit`;
  const long = stored.flatMap(({ name, type }) => {
    const column = quoted(name);
    if (binaryType[type] === 'json') return [`${column}::text`];
    return binaryType[type] === 'text' ? [column] : [];
  });
  return onePageOf(sql, { names, long: ['_extra::text', ...long], order: '_row' });
}

/** The first rows of a statement, until they are as long as a page: a thousand large records would not fit into memory here. */
function onePageOf(
  sql: string,
  {
    names,
    long,
    order,
  }: { readonly names: readonly string[]; readonly long: readonly string[]; readonly order: string },
): string {
  const length = long.map((value) => `coalesce(octet_length(${value}), 0)::bigint`).join(' + ');
  return `SELECT ${names.join(', ')} FROM (
      SELECT *, sum(_length) OVER (ORDER BY ${order} ROWS UNBOUNDED PRECEDING) - _length AS _before
      FROM (SELECT *, ${length} AS _length FROM (${sql}) AS found) AS measured
    ) AS page WHERE _before < ${pageLength} ORDER BY ${order}`;
}

type RawRow = [
  row: number,
  extra: string | null,
  firstSeenAt: Instant,
  changedAt: Instant,
  run: RunId,
  seq: number,
  hash: string,
  volatileHash: string | null,
  deletedAt: Instant | null,
  home: number | null,
  ...values: unknown[],
];

function copiedRecord(raw: RawRow): CopiedRecord {
  const [row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, home, ...values] = raw;
  return {
    row,
    firstSeenAt,
    changedAt,
    run,
    seq,
    hash,
    volatileHash,
    deletedAt,
    home,
    extra,
    values: values.map(columnValue),
  };
}

async function* readFacts(
  { at }: Ledger,
  connector: ConnectorName,
  ask: <Result>(work: (tx: Tx) => Promise<Result>) => Promise<Result>,
): AsyncGenerator<FactBatch> {
  for (const of of factNames) {
    const pages = inPages<FactRow>(async (last, limit) => {
      const sql = onePageOf(selectFacts(of, { at, isFirst: last === null, own: {} }), {
        names: factColumns(of).map(({ name }) => `"${name}"`),
        long: factColumns(of).flatMap(({ name, meaning }) =>
          meaning === 'text' || meaning === 'bytes' ? [`"${name}"`] : [],
        ),
        order: factOrder(of, ''),
      });
      return await ask(async (tx) =>
        named(of, await tx.arrays(sql, { connector, limit, ...factCursor(of, last) })),
      );
    });
    for await (const rows of pages) yield { of, rows } as FactBatch;
  }
}

/** By the names of the columns as they are. */
function named(of: FactName, rows: readonly (readonly unknown[])[]): readonly FactRow[] {
  const names = factColumns(of).map(({ name }) => name);
  return rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index] as FactValue])));
}
