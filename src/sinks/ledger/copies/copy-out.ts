import { hash } from 'node:crypto';
import { writeJson } from '../../../core/json-text.ts';
import { instant } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import {
  factNames,
  type CopiedConnector,
  type CopiedRecord,
  type CopiedTable,
  type CopiedVersion,
  type CopySource,
  type FactBatch,
  type FactName,
  type FactRow,
  type FactValue,
} from '../../copies.ts';
import { factColumns } from '../../copies/facts.ts';
import { inPages, onePageOf } from '../../copies/in-pages.ts';
import type { Holder, StoredIdentity } from '../../lease.ts';
import type { TableColumns } from '../../decisions/stored-table.ts';
import { noteAction } from '../actions.ts';
import { checkWhole, noRun } from '../acquire.ts';
import { noteCopiedTo, noteHolder } from '../connectors.ts';
import { readPause } from '../history/read-overview.ts';
import type { Taken } from '../driver.ts';
import type { Ledger } from '../ledger.ts';
import { readColumns, type ColumnTexts } from '../tables.ts';
import { versionedEntities } from '../versions/versions.ts';
import { camelCase } from '../../../sql/statement.ts';
import type { Tx } from '../../../sql/database.ts';

/** Every page is read in a snapshot that sees whether the lease still holds: pages of one lease are of one state. */
export async function openSource(
  ledger: Ledger,
  connector: ConnectorName,
  holder: Holder,
): Promise<CopySource> {
  const taken = await ledger.take(connector, holder, async (tx) => {
    await checkWhole(tx, connector);
    // A lease names its holder, the lock of a file does not.
    if (tx.dialect.name === 'sqlite') await noteHolder(tx, connector, holder);
  });
  const ask = taken.read;
  try {
    return {
      connector: await ask(async (tx) => await describe(tx, ledger, connector)),
      records: (table, after) =>
        inPages<CopiedRecord>((last, limit) =>
          ask((tx) => ledger.records.readWhole(tx, connector, table, last?.row ?? after, limit)),
        ),
      versions: (table, after) =>
        inPages<CopiedVersion>((last, limit) =>
          ask((tx) => ledger.records.readVersions(tx, connector, table, last?.seqTo ?? after, limit)),
        ),
      facts: () => readFacts(connector, ask),
      noteCopied: async ({ from, to }) =>
        await taken.inTurn(async () => {
          const copiedTo = writeJson({ from, to, at: instant(ledger.clock.now()) });
          await taken.transact(noRun, async (tx) => {
            const isNew = await noteCopiedTo(tx, connector, copiedTo);
            if (isNew) noteAction(tx, ledger, { action: 'copy-to', connector, detail: { to } });
          });
        }),
      [Symbol.asyncDispose]: async () => await taken.release(),
    };
  } catch (error) {
    await taken.release();
    throw error;
  }
}

interface ConnectorRow extends StoredIdentity, Pick<CopiedConnector, 'definitionHash'> {
  readonly epoch: number;
}

type TableRow = Omit<CopiedTable, keyof TableColumns | 'hasVersions'> & ColumnTexts;

async function describe(tx: Tx, ledger: Ledger, connector: ConnectorName): Promise<CopiedConnector> {
  const found = await tx.first<ConnectorRow>(
    `SELECT base_url, connector_id, definition, definition_hash, epoch FROM _sync_connectors WHERE connector = :connector`,
    { connector },
  );
  if (found === undefined) {
    throw usage(`The sink at ${ledger.db.place} holds nothing of connector "${connector}".`);
  }
  const { epoch, ...identity } = found;
  const tables = await wholeTables(tx, connector);
  // All that changes records takes the connector for a run first, which notes its epoch; a reset with data drops
  // tables.
  const state = hash('sha256', JSON.stringify([epoch, tables]), 'hex');
  return {
    connector,
    sinkId: ledger.sinkId,
    ...identity,
    state,
    pause: await readPause(tx, connector),
    tables,
    newestSeq: await ledger.newestSeq(tx, connector),
    highestPartition: await ledger.highestPartition(tx),
  };
}

/** The connector's tables, by entity. */
export async function wholeTables(tx: Tx, connector: ConnectorName): Promise<readonly CopiedTable[]> {
  const rows = await tx.rows<TableRow>(
    `SELECT entity, key, stored, declared, evolved, rows, deleted, last_row, as_of, taken_over, adopted_at, first_origin, table_id, described
     FROM _sync_tables WHERE connector = :connector ORDER BY entity`,
    { connector },
  );
  const versioned = await versionedEntities(tx, connector);
  return rows.map(({ key, stored, declared, evolved, ...table }) => ({
    ...table,
    hasVersions: versioned.has(table.entity),
    ...readColumns({ key, stored, declared, evolved }),
  }));
}

async function* readFacts(connector: ConnectorName, ask: Taken['read']): AsyncGenerator<FactBatch> {
  for (const of of factNames) {
    const pages = inPages<FactRow>(async (last, limit) => {
      const sql = onePageOf(selectFacts(of, last === null), {
        names: factColumns(of).map(({ name }) => `"${name}"`),
        long: factColumns(of).flatMap(({ name, meaning }) =>
          meaning === 'text' || meaning === 'bytes' ? [`"${name}"`] : [],
        ),
        order: factOrder(of),
      });
      return await ask(async (tx) =>
        named(of, await tx.rows(sql, { connector, limit, ...factCursor(of, last) })),
      );
    });
    for await (const rows of pages) yield { of, rows };
  }
}

/** By the names of the columns as they are; flags are 0 and 1. */
function named(of: FactName, rows: readonly object[]): readonly FactRow[] {
  const names = factColumns(of).map(({ name }) => [name, camelCase(name)] as const);
  return rows.map((row) => {
    const cells = row as Readonly<Record<string, FactValue | boolean>>;
    return Object.fromEntries(
      names.map(([name, member]) => {
        const cell = cells[member] ?? null;
        return [name, typeof cell === 'boolean' ? Number(cell) : cell];
      }),
    );
  });
}

/** The columns by which a reader goes from batch to batch: unique within a connector, and never null. */
const keys = {
  // Newest first: a target that numbers them after its own has the highest number at once.
  runs: ['number'],
  counts: ['run', 'entity'],
  partitions: ['id'],
  seen: ['entity', 'origin', 'chunk'],
  also: ['entity', 'row', 'partition'],
  missing: ['entity', 'row'],
  drift: ['entity', 'field', 'kind', 'type'],
  windows: ['backfill', 'window'],
  hours: ['entity', 'hour'],
  quarantine: ['id'],
  downloads: ['id'],
  versions: ['entity'],
  days: ['entity', 'day'],
  masks: ['entity'],
  actions: ['id'],
  conditions: ['kind', 'subject'],
  purge_keys: ['key_id'],
  purged: ['entity', 'mac'],
  retained: ['entity'],
} as const satisfies Record<FactName, readonly string[]>;

/**
 * A statement for the next rows of a fact, which both SQLite and PostgreSQL understand; `:connector`, `:limit`, and
 * from the second batch on `:k0` and so on.
 */
function selectFacts(fact: FactName, isFirst: boolean): string {
  const list = factColumns(fact).map(({ name }) => `fact."${name}" AS "${name}"`);
  const order = keys[fact].map((key) => `fact."${key}"`);
  // By the id, in one pass over the table: the index on the connector would need a sort for each batch.
  const connector = order.length === 1 && fact !== 'runs' ? "fact.connector || ''" : 'fact.connector';
  const of =
    fact === 'counts'
      ? `fact.run IN (SELECT run FROM _sync_runs WHERE connector = :connector)`
      : `${connector} = :connector`;
  const behind = isFirst
    ? ''
    : ` AND (${order.join(', ')}) ${isNewestFirst(fact) ? '<' : '>'} (${order.map((_, index) => `:k${index}`).join(', ')})`;
  return `SELECT ${list.join(', ')} FROM _sync_${fact} AS fact WHERE ${of}${behind}
    ORDER BY ${factOrder(fact)} LIMIT :limit`;
}

/** How rows of a fact are sorted. */
function factOrder(fact: FactName): string {
  return keys[fact].map((key) => `"${key}"${isNewestFirst(fact) ? ' DESC' : ''}`).join(', ');
}

function isNewestFirst(fact: FactName): boolean {
  return fact === 'runs';
}

/** Values for `:k0` and so on: the batch begins after this row. */
function factCursor(fact: FactName, last: FactRow | null): Readonly<Record<string, FactValue>> {
  if (last === null) return {};
  return Object.fromEntries(keys[fact].map((key, index) => [`k${index}`, last[key] ?? null]));
}
