import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import type { EntityTable, Params } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import type { RunOptions } from '../../src/engine/plan-run.ts';
import { revisingAccount } from './revising-account.ts';
import type { SampleAccount, SampleSize } from '../../src/sample/sample-account.ts';
import { sampleTruth } from './sample-truth.ts';
import { serveSamples } from './serve-samples.ts';
import { openHistory } from '../../src/sinks/registry.ts';
import { missingRows } from './missing-rows.ts';
import { expectedRows, type Row } from './expected-rows.ts';
import { builtInDefinition, sampleConnectors, sampleSeed } from './sample-service.ts';
import { sampleSinkOf, type SampleSinkType } from './sample-sinks.ts';
import { allEntities, entityNamed, syncOnce, testCredentials, type SyncOnce } from './sync-once.ts';

const dayMs = 24 * 60 * 60 * 1000;

/** Table name -> key -> row. */
export type Rows = ReadonlyMap<string, ReadonlyMap<string, Row>>;

export type RevisionWorld = Awaited<ReturnType<typeof openRevisionWorld>>;

/** A sample account that is moved from revision to revision, a service before it and a sink behind it. */
export async function openRevisionWorld(options: {
  readonly definitionName: string;
  readonly sink: SampleSinkType;
  readonly size?: SampleSize;
  /** What is read and compared, where that is not everything: most rows of an account are events of its members. */
  readonly entities?: readonly string[];
  /** Lies over the account: what else tests change about it. */
  readonly wrap?: (account: SampleAccount) => SampleAccount;
}) {
  const { definitionName, size = 'small', wrap = (account) => account } = options;
  const sink = await sampleSinkOf(options.sink);
  const definition = builtInDefinition(definitionName);
  const folder = mkdtempSync(path.join(tmpdir(), 'revisions-'));
  const revising = revisingAccount({ definitionName, seed: sampleSeed, size });
  const account = wrap(revising);
  let calls = new Map<string, number>();
  let laterMs = 0;
  let obstacle: ((entity: string, params: Params) => void) | null = null;
  const met = (entity: string, params: Params): void => {
    calls.set(entity, (calls.get(entity) ?? 0) + 1);
    obstacle?.(entity, params);
  };
  const connectorId = sampleConnectors.find(([, name]) => name === definitionName)?.[0] ?? '';
  const service = await serveSamples({
    port: 0,
    ...testCredentials,
    definitions: new Map([[definitionName, definition]]),
    accounts: [
      {
        connectorId,
        definitionName,
        workspace: 'default',
        seed: sampleSeed,
        size,
        account: {
          list: (entity, params) => {
            met(entity, params);
            return account.list(entity, params);
          },
          get: (entity, params) => {
            met(entity, params);
            return account.get(entity, params);
          },
        },
      },
    ],
  });
  const kept = new Map<string, Map<string, Row>>();

  const isRead = (name: string): boolean => options.entities?.includes(name) ?? true;
  const stays = (entity: Entity): boolean => entity.deletes === 'never';
  /** What happened once and stays, seen now or before. */
  const events = (): Rows => {
    for (const [table, rows] of trueRows(definitionName, account, (one) => isRead(one.name) && stays(one))) {
      kept.set(table, new Map([...(kept.get(table) ?? []), ...rows]));
    }
    return kept;
  };
  let known: Rows | null = null;
  const truth = (): Rows => {
    // What lies over the account may change it at any time; the account itself changes only by moving on.
    if (known !== null && options.wrap === undefined) return known;
    const others = trueRows(definitionName, account, (one) => isRead(one.name) && !stays(one));
    known = new Map([...others, ...events()]);
    return known;
  };
  events();

  return {
    folder,
    url: service.url,
    definitionName,
    moveTo: (revision: number) => {
      revising.moveTo(revision);
      known = null;
      // Fields that change all the time are stored again after a day.
      laterMs += 25 * 60 * 60 * 1000;
      events();
    },
    /** Called before every call is answered; what it throws is the answer. Null: nothing in the way. */
    obstruct: (next: ((entity: string, params: Params) => void) | null) => {
      obstacle = next;
    },
    /** One run of everything, as a person would make it. */
    sync: (run: Partial<RunOptions> = {}, more: Partial<SyncOnce> = {}) =>
      syncOnce({
        baseUrl: service.url,
        definition,
        connectorId,
        sink: sink.options(folder),
        // By age alone nothing becomes due: a test says when it wants a full read.
        entities: new Map(
          [...allEntities(definition)]
            .filter(([name]) => isRead(name))
            .map(([name, chosen]) => [name, { ...chosen, fullEveryMs: 1000 * dayMs }]),
        ),
        clock: { ...systemClock, now: () => Date.now() + laterMs },
        run,
        ...more,
      }),
    /** What the account holds now, and, of what happened once and stays, has held. */
    truth,
    /** The same of one entity alone, as it is now. */
    truthOf: (entity: string) =>
      expectedRows(entityNamed(definition, entity), sampleTruth(account, entity)).rows,
    /** In the trash: no longer listed, and `get` still returns it. */
    isTrashed: (entity: string, id: string) => {
      const param = idParams[entity];
      return param !== undefined && account.get(entity, { [param]: id })?.['in_trash'] === true;
    },
    /** What a reader of the sink finds, without what is deleted. */
    stored: (table: EntityTable) => sink.rows(folder, definitionName, table),
    /** Calls since the last time this was asked, by entity. */
    takeCalls: () => {
      const taken = calls;
      calls = new Map();
      return taken;
    },
    /** Rows of the ledger that seem to be gone and are not deleted yet: entity -> keys. */
    pending: async () => {
      await using history = await openHistory(sink.options(folder));
      const connector = definitionName as ConnectorName;
      const [status] = await history.connectors([connector]);
      const pending = new Map<string, ReadonlySet<string>>();
      for (const table of [...definition.entities.values()].flatMap((one) =>
        one.explodedTable === null ? [one.table] : [one.table, one.explodedTable],
      )) {
        const known = status?.entities.find(({ entity }) => entity === table.entity);
        if ((known?.missing ?? 0) === 0) continue;
        const keys = [...sink.rows(folder, definitionName, table).keys()];
        const missing = await missingRows(history, connector, table, keys);
        pending.set(table.entity, new Set(missing.map(({ keyText }) => keyText)));
      }
      return pending;
    },
    [Symbol.asyncDispose]: async () => {
      await service.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const idParams: Readonly<Record<string, string>> = {
  pages: 'page_id',
  data_sources: 'data_source_id',
  blocks: 'block_id',
};

/** Table name -> key -> row of what an account holds; comments below single blocks are not asked for. */
export function trueRows(
  definitionName: string,
  account: SampleAccount,
  isAsked: (entity: Entity) => boolean = () => true,
): Map<string, ReadonlyMap<string, Row>> {
  const tables = new Map<string, ReadonlyMap<string, Row>>();
  for (const entity of [...builtInDefinition(definitionName).entities.values()].filter(isAsked)) {
    const { rows, exploded } = expectedRows(entity, sampleTruth(account, entity.name));
    tables.set(entity.name, entity.name === 'comments' ? ofPages(rows) : rows);
    if (entity.explodedTable !== null) tables.set(entity.explodedTable.entity, exploded);
  }
  return tables;
}

function ofPages(comments: ReadonlyMap<string, Row>): ReadonlyMap<string, Row> {
  return new Map(
    [...comments].filter(([, { columns }]) => {
      const { parent } = columns;
      return typeof parent === 'object' && parent !== null && 'page_id' in parent;
    }),
  );
}
