import { createHash } from 'node:crypto';
import { instant } from '../../../core/clock.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import type { CopiedConnector, CopiedRecord, CopiedTable, CopySource, FactBatch } from '../../copies.ts';
import { factNames, seenRows, type FactName, type FactRow, type Facts } from '../../copies/facts.ts';
import { factCursor, selectFacts } from '../../copies/select-facts.ts';
import { inPages, onePage } from '../../copies/in-pages.ts';
import type { Holder, Pause } from '../../lease.ts';
import { parseColumns, parseNames } from '../../stored-json.ts';
import { checkWhole, lockConnector, noRun } from '../acquire.ts';
import type { Ledger } from '../ledger.ts';
import { highestId } from '../partitions/partitions-sql.ts';
import type { RecordCopies } from '../record-store.ts';
import { toSinkError } from '../../sqlite-next/sink-error.ts';
import { inTransaction } from '../transact.ts';

/** Its lock is the kernel's: while it is held, nothing else can take the connector. */
export async function openLedgerSource(
  ledger: Ledger,
  records: RecordCopies,
  connector: ConnectorName,
  holder: Holder,
): Promise<CopySource> {
  const lock = lockConnector(ledger, connector);
  try {
    const copied = await inTransaction(ledger, noRun, () => {
      checkWhole(ledger, connector);
      const described = describe(ledger, records, connector);
      ledger.connectors.noteHolder(connector, holder);
      return described;
    });
    return {
      connector: copied,
      records: (table, after) =>
        inPages<CopiedRecord>((last, limit) =>
          ask(ledger, () => records.read(connector, table, last?.row ?? after, limit)),
        ),
      facts: () => readFacts(ledger, connector),
      noteCopied: async ({ from, to }) =>
        await inTransaction(ledger, noRun, () => {
          ledger.connectors.noteCopied(connector, writeJson({ from, to, at: instant(ledger.clock.now()) }));
        }),
      [Symbol.asyncDispose]: async () => lock.release(),
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

async function ask<Result>({ db, file }: Ledger, work: () => Result): Promise<Result> {
  try {
    return db.transaction(work).deferred();
  } catch (error) {
    throw toSinkError(error, file);
  }
}

interface ConnectorRow extends Pick<
  CopiedConnector,
  'baseUrl' | 'connectorId' | 'definition' | 'definitionHash'
> {
  readonly epoch: number;
}

function describe({ db, file }: Ledger, records: RecordCopies, connector: ConnectorName): CopiedConnector {
  const found = db
    .prepare<[string], ConnectorRow>(
      `SELECT base_url AS baseUrl, connector_id AS connectorId, definition, definition_hash AS definitionHash, epoch
       FROM _sync_connectors WHERE connector = ?`,
    )
    .get(connector);
  if (found === undefined) throw usage(`The sink at ${file} holds nothing of connector "${connector}".`);
  const { epoch, ...identity } = found;
  const meta = db
    .prepare<[], { sinkId: string; newestSeq: number }>(
      'SELECT sink_id AS sinkId, seq AS newestSeq FROM _sync_meta',
    )
    .get() ?? { sinkId: '', newestSeq: 0 };
  const pause = db
    .prepare<[string], Pause>('SELECT since, reason FROM _sync_pauses WHERE connector = ?')
    .get(connector);
  const tables = db
    .prepare<[string], TableRow>(
      `SELECT entity, key, stored, declared, evolved, rows, deleted, as_of AS asOf, taken_over AS takenOver,
         adopted_at AS adoptedAt, first_origin AS firstOrigin, table_id AS tableId, described
       FROM _sync_tables WHERE connector = ? ORDER BY entity`,
    )
    .all(connector)
    .map(({ key, stored, declared, evolved, ...table }): CopiedTable => ({
      ...table,
      key: parseNames(key),
      stored: parseColumns(stored),
      declared: parseColumns(declared),
      evolved: parseColumns(evolved),
      lastRow: records.lastRow(connector, table.entity),
    }));
  // Whatever changes records takes the connector first, which raises its epoch; a reset with data drops tables.
  const state = createHash('sha256')
    .update(JSON.stringify([epoch, tables]))
    .digest('hex');
  const highestPartition = highestId(db);
  return { connector, ...identity, ...meta, highestPartition, state, pause: pause ?? null, tables };
}

interface TableRow extends Omit<CopiedTable, 'key' | 'stored' | 'declared' | 'evolved' | 'lastRow'> {
  readonly entity: EntityName;
  readonly key: string;
  readonly stored: string;
  readonly declared: string;
  readonly evolved: string;
}

/** What this ledger has in its reports and proofs, where others have columns. */
const own: Partial<Record<FactName, Readonly<Record<string, string>>>> = {
  runs: { resume_at: `json_extract(fact.report, '$.resumeAt')` },
  counts: {
    depth_limited: `coalesce((SELECT json_extract(told.value, '$.depthLimited')
      FROM _sync_runs AS run, json_each(run.report, '$.entities') AS told
      WHERE run.run = fact.run AND json_extract(told.value, '$.entity') = fact.entity), 0)`,
  },
  partitions: {
    last_page_size: `json_extract(fact.proof, '$.lastPage.size')`,
    last_page_records: `json_extract(fact.proof, '$.lastPage.records')`,
    failure_code: `json_extract(fact.failure, '$.code')`,
  },
};

async function* readFacts(ledger: Ledger, connector: ConnectorName): AsyncGenerator<FactBatch> {
  for (const of of factNames) {
    const pages = inPages<FactRow>((last, limit) =>
      ask(ledger, () => {
        const sql = selectFacts(of, { at: '', isFirst: last === null, own: own[of] ?? {} });
        const statement = ledger.db.prepare<[Readonly<Record<string, unknown>>], FactRow>(sql);
        return onePage(statement.iterate({ connector, limit, ...factCursor(of, last) }));
      }),
    );
    for await (const rows of pages) {
      const given = of === 'seen' ? (rows as readonly Facts['seen'][]).flatMap(splitChunk) : rows;
      yield { of, rows: given } as FactBatch;
    }
  }
}

/** This ledger's chunks are longer: both halves of each are cut. */
function splitChunk({ bits, chunk, ...of }: Facts['seen']): readonly Facts['seen'][] {
  const half = bits.length / 2;
  const partBytes = seenRows / 8;
  const parts = half / partBytes;
  return Array.from({ length: parts }, (_, part) => {
    const at = part * partBytes;
    const met = bits.subarray(at, at + partBytes);
    return {
      ...of,
      chunk: chunk * parts + part,
      bits: Buffer.concat([met, bits.subarray(half + at, half + at + partBytes)]),
    };
  }).filter((one) => one.bits.some((byte) => byte !== 0));
}
