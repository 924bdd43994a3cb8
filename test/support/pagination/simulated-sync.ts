import { instant } from '../../../src/core/clock.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import { buildDefinition, type Entity } from '../../../src/definitions/definition.ts';
import { definitionFile } from '../../../src/definitions/definition-file.ts';
import { type GroupCommits, walkPartition, walkContext, type WalkEnd } from '../../../src/engine/walk.ts';
import type { runTally } from '../../../src/engine/run-tally.ts';
import type { Position, Seal, WalkMode } from '../../../src/sinks/partition.ts';
import type { PageCommit } from '../../../src/sinks/sink.ts';
import type { Source } from '../../../src/source/source.ts';
import type { SimulatedService } from './simulated-service.ts';

const byOffset = { kind: 'offset', offsetParam: 'offset', sizeParam: 'count', maxSize: 30 };
const byToken = {
  kind: 'pageToken',
  tokenParam: 'token',
  sizeParam: 'count',
  maxSize: 30,
  flagKeys: ['more'],
  tokenKeys: ['token'],
};
const byPage = {
  kind: 'page',
  pageParam: 'page',
  first: 0,
  sizeParam: 'count',
  maxSize: 30,
  totalKeys: ['total'],
};
const byLast = {
  kind: 'lastRecord',
  tokenParam: 'after',
  sizeParam: 'count',
  maxSize: 30,
  flagKeys: ['more'],
  totalKeys: ['total'],
};
const byRecord = { by: 'record' };
const sortedByDate = { field: 'created', params: { sort: 'created' } };
const fields = { id: 'string', version: 'integer', changed: 'string', created: 'string' };
const entity = (more: object): object => ({
  fields,
  key: ['id'],
  actions: {
    list: {
      params: {
        count: 'integer',
        offset: 'integer',
        page: 'integer',
        token: 'string',
        after: 'string',
        by: 'string',
        since: 'string',
        sort: 'string',
      },
    },
  },
  pagination: byOffset,
  ...more,
});

/** One entity for each kind of walk. */
const simulated = buildDefinition(
  definitionFile().parse({
    name: 'simulated',
    title: 'Simulated',
    id: '3f2c8a5e-6d1b-4c0f-9a77-1f0e5b8c2d44',
    rateLimit: { requestsPerSecond: 1, concurrency: 1 },
    entities: {
      ordered: entity({ order: sortedByDate }),
      ordered_pages: entity({ pagination: byPage, order: sortedByDate }),
      unordered_pages: entity({ pagination: byPage }),
      growing_pages: entity({ pagination: byPage, growsOnly: true, deletes: 'never' }),
      fixed_pages: entity({ pagination: { ...byPage, sizeParam: null }, order: sortedByDate }),
      last_key: entity({
        pagination: { ...byLast, field: 'id' },
        fixedParams: { ...byRecord, sort: 'id' },
      }),
      last_date: entity({
        pagination: { ...byLast, field: 'created' },
        fixedParams: { ...byRecord, sort: 'created' },
      }),
      unordered: entity({}),
      growing: entity({ growsOnly: true, deletes: 'never' }),
      tokens: entity({
        pagination: byToken,
        order: { field: 'changed', params: { sort: 'oldest' } },
        incremental: {
          kind: 'newestFirst',
          field: 'changed',
          params: { sort: 'newest' },
          lookbackMs: 120_000,
        },
      }),
      keyset: entity({
        order: { field: 'changed', params: { sort: 'oldest' } },
        incremental: { kind: 'keyset', field: 'changed', sinceParam: 'since', lookbackMs: 60_000 },
      }),
      activity: entity({
        fields: { ...fields, events: 'array' },
        growsOnly: true,
        deletes: 'never',
        incremental: { kind: 'since', field: 'events.at', sinceParam: 'since', lookbackMs: 60_000 },
        explode: {
          field: 'events',
          into: 'events',
          carry: ['id'],
          fields: { event: 'string', at: 'string' },
          key: ['id', 'event'],
        },
      }),
    },
  }),
);

export type SimulatedEntity =
  | 'ordered'
  | 'ordered_pages'
  | 'unordered'
  | 'unordered_pages'
  | 'growing'
  | 'growing_pages'
  | 'fixed_pages'
  | 'last_key'
  | 'last_date'
  | 'tokens'
  | 'keyset'
  | 'activity';

export interface SealedWalk {
  readonly mode: WalkMode;
  readonly seal: Seal;
  /** Ids met by this walk. */
  readonly met: ReadonlySet<string>;
  readonly capMs: number;
}

export type SimulatedSync = ReturnType<typeof simulatedSync>;

/** Of one walk: one that is always killed before its first commit has no end. */
const mostKills = 6;

/** A process that was killed stored nothing more. */
class Killed extends Error {}

/** A partition and its records, synced from a simulated service by the engine's own walking. */
export function simulatedSync(name: SimulatedEntity, service: SimulatedService, random: () => number) {
  const walked = entityNamed(name);
  const stored = new Map<string, number>();
  let watermarkMs: number | null = null;
  let clockDifferences: readonly number[] = [];
  let kills = 0;

  /** One process: ends when the walk does, or in the middle of a call. */
  async function run(
    from: { position: Position | null; mode: WalkMode; killShare: number },
    onCommit: (page: PageCommit) => void,
  ): Promise<{ end: WalkEnd | null; capMs: number }> {
    const stop = new AbortController();
    const capMs = Math.floor(service.dateMs() / 1000) * 1000;
    const source: Source = {
      connect: () => Promise.resolve(),
      get: () => Promise.resolve(null),
      list: async ({ params }) => {
        await Promise.resolve();
        if (kills < mostKills && random() < from.killShare) stop.abort(new Killed('killed'));
        stop.signal.throwIfAborted();
        return service.list(params);
      },
      stats: () => ({ calls: 0, retries: 0, waitedMs: 0, bytes: 0, serverTime: null }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    const simulatedRun = {
      id: 'run' as RunId,
      source,
      tally: { pageCommitted: () => undefined } as unknown as ReturnType<typeof runTally>,
      capMs,
      clock: { now: service.dateMs, sleep: () => Promise.resolve() },
      onEvent: () => undefined,
      signal: stop.signal,
      definition: simulated,
      entities: new Map(),
      policies: new Map(),
      concurrency: 1,
      asked: { window: null },
    };
    const commits = simulatedCommits(stop.signal, onCommit);
    const context = walkContext(simulatedRun, walked, { commits, inFlight: { bytes: 0, maxBytes: 1e9 } });
    const partition = {
      id: 1,
      entity: walked.name,
      params: {},
      inject: {},
      rank: 0,
      treeDepth: null,
      tree: null,
      position: from.position,
      mode: from.mode,
      storedRows: 0,
      clockDifferences,
      watermark: watermarkMs === null ? null : instant(watermarkMs),
    };
    try {
      return { end: await walkPartition(context, partition), capMs };
    } catch (error) {
      if (error instanceof Killed) return { end: null, capMs };
      throw error;
    }
  }

  return {
    /** Row -> version; and of exploded elements `<row>/<element>`. */
    stored,
    watermarkMs: () => watermarkMs,
    /** Walks until it is sealed or set aside. `killShare`: how often a call is the last of its process. */
    walk: async ({
      killShare = 0,
      isFull = false,
    }: { readonly killShare?: number; readonly isFull?: boolean } = {}) => {
      const mode: WalkMode =
        isFull || watermarkMs === null || walked.incremental === null ? 'full' : 'incremental';
      const met = new Set<string>();
      kills = 0;
      let position: Position | null = null;
      let seal: Seal | null = null;
      const onCommit = (page: PageCommit): void => {
        for (const { entity: into, records } of page.rows) {
          for (const record of records) {
            const [id, element] = keyOf(record);
            if (into === walked.name) met.add(id);
            stored.set(element === undefined ? id : `${id}/${element}`, versionOf(record));
          }
        }
        // What the ledger keeps is JSON: a walk must survive the way there and back.
        position = JSON.parse(JSON.stringify(page.position)) as Position;
        seal = page.seal;
      };
      for (;;) {
        const { end, capMs } = await run({ position, mode, killShare }, onCommit);
        if (end === null) {
          kills += 1;
          continue;
        }
        if (end.kind === 'set-aside') {
          if (end.failure.dropWatermark) watermarkMs = null;
          return end;
        }
        if (seal === null) throw new Error('sealed without a seal');
        const sealed: Seal = seal;
        clockDifferences = sealed.clockDifferences ?? [];
        if (sealed.watermark !== null) {
          watermarkMs = Math.max(watermarkMs ?? -Infinity, Date.parse(sealed.watermark));
        }
        return { mode, seal: sealed, met, capMs };
      }
    },
  };
}

/** Stores a page some turns after it was handed over; a kill loses what is not stored by then. */
function simulatedCommits(signal: AbortSignal, onCommit: (page: PageCommit) => void): GroupCommits {
  let last: Promise<void> = Promise.resolve();
  return {
    submit: async (page) => {
      const stored = last.then(async () => {
        for (let turns = 0; turns < 5; turns += 1) await Promise.resolve();
        signal.throwIfAborted();
        onCommit(page);
      });
      last = stored.catch(() => undefined);
      await stored;
      return { counts: [], newlyDue: 0 };
    },
    waitFor: (waiting) => waiting,
    walkOpened: () => undefined,
    walkClosed: () => undefined,
  };
}

function entityNamed(name: SimulatedEntity): Entity {
  const found = simulated.entities.get(name as EntityName);
  if (found === undefined) throw new Error(`no entity ${name}`);
  return found;
}

function keyOf(record: PreparedRecord): [string, string | undefined] {
  const [id = '', element] = JSON.parse(record.keyText) as string[];
  return [id, element];
}

/** The column `version` is the second one. */
function versionOf(record: PreparedRecord): number {
  return Number(record.values[1]);
}
