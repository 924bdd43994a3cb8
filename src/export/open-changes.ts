import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import type { EntityTarget } from '../settings/entity-target.ts';
import type { EntityFreshness } from '../sinks/ledger-reader.ts';
import type { RecordReader, StoredRecord } from '../sinks/record-reader.ts';
import { checkCopied, openExistingRecords } from '../sinks/registry.ts';

export interface Written {
  readonly upserts: number;
  readonly deletes: number;
}

/** What a consumer stores beside the records, in the same transaction. */
export interface ExportEnd extends Written {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  /** Random id made with the sink: numbers mean nothing in another one. Null: there is none yet. */
  readonly sink: string | null;
  readonly sinceSeq: number;
  /** What to give as `--since-seq` the next time. */
  readonly nextSeq: number;
  /** The newest sync whose outcome was `ok`; null where none of the newest hundred was. */
  readonly run: { readonly run: RunId; readonly finishedAt: Instant | null } | null;
  /** What changed upstream before is in; null where the entity was never read whole. */
  readonly asOf: Instant | null;
  /** The same of every entity of the connector. */
  readonly entities: readonly EntityFreshness[];
}

const searchedRuns = 100;

/** The changes of an entity after a number, in one state of its sink. */
export interface EntityChanges extends AsyncDisposable {
  /** The newest number that the sink has given; 0 where it has given none. */
  readonly newestSeq: number;
  /** As it is stored; as it is declared where nothing is. */
  readonly table: EntityTable;
  records(): AsyncIterable<readonly StoredRecord[]>;
  /** Of the same state as the records. */
  end(written: Written): Promise<ExportEnd>;
}

export async function openChanges(target: EntityTarget, sinceSeq: number): Promise<EntityChanges> {
  const { connector, table: declared } = target;
  const { name } = connector;
  const reader = await openExistingRecords(connector.sink);
  try {
    if (reader !== null) await checkCopied(reader.history, name);
    const stored = (await reader?.table(name, declared.entity)) ?? null;
    return {
      newestSeq: (await reader?.newestSeq(name)) ?? 0,
      table: stored ?? declared,
      records: () =>
        reader === null || stored === null ? noRecords() : reader.changes(name, stored, sinceSeq),
      end: async (written) =>
        reader === null
          ? nothingStored(target, sinceSeq)
          : await exportEnd(target, reader, sinceSeq, written),
      [Symbol.asyncDispose]: async () => await reader?.[Symbol.asyncDispose](),
    };
  } catch (error) {
    await reader?.[Symbol.asyncDispose]();
    throw error;
  }
}

async function* noRecords(): AsyncGenerator<readonly StoredRecord[]> {}

async function exportEnd(
  { connector, table }: EntityTarget,
  reader: RecordReader,
  sinceSeq: number,
  written: Written,
): Promise<ExportEnd> {
  const { name } = connector;
  const { sinkId, history } = reader;
  const runs = await history.runs({ connector: name, kind: 'sync', limit: searchedRuns });
  const run = runs.find(({ state }) => state === 'ok');
  const entities = await history.freshness(name);
  return {
    connector: name,
    entity: table.entity,
    ...written,
    sink: sinkId,
    sinceSeq,
    nextSeq: await reader.newestSeq(name),
    run: run === undefined ? null : { run: run.run, finishedAt: run.finishedAt },
    asOf: entities.find(({ entity }) => entity === table.entity)?.asOf ?? null,
    entities,
  };
}

function nothingStored({ connector, table }: EntityTarget, sinceSeq: number): ExportEnd {
  const nothing = { upserts: 0, deletes: 0, sink: null, run: null, asOf: null, entities: [] };
  return { connector: connector.name, entity: table.entity, sinceSeq, nextSeq: sinceSeq, ...nothing };
}
