import type { RunId } from '../../../src/core/names.ts';
import type { Column } from '../../../src/core/records.ts';
import type { Manifest, PublishedEntity } from '../../../src/publish/manifest.ts';
import {
  planPublication,
  type PublicationPlan,
  type StoredConnector,
  type StoredEntity,
} from '../../../src/publish/publication.ts';
import { lists, listsTable, members, membersTable, news } from '../../contracts/sink/fixture.ts';

export const run1 = {
  run: '20260301T100000000Z-00000001' as RunId,
  startedAt: '2026-03-01T10:00:00.000Z',
  finishedAt: null,
};
export const run2 = {
  run: '20260302T100000000Z-00000002' as RunId,
  startedAt: '2026-03-02T10:00:00.000Z',
  finishedAt: null,
};
export const asOf = '2026-03-01T10:00:00.000Z';

export const storedMembers: StoredEntity = {
  table: membersTable,
  tableId: 'table-1',
  asOf,
  isColliding: false,
  kinds: new Map(),
  described: null,
};
export const storedLists: StoredEntity = {
  table: listsTable,
  tableId: 'table-2',
  asOf,
  isColliding: false,
  kinds: new Map(),
  described: null,
};

export function stored(change: Partial<StoredConnector> = {}): StoredConnector {
  return {
    connector: news,
    doubt: null,
    newestSeq: 10,
    newestRun: run1,
    restored: null,
    declared: [members, lists],
    entities: [storedMembers, storedLists],
    ...change,
  };
}

const noWishes = {
  target: 'lake',
  layout: '{entity}.parquet' as string | null,
  isTyped: true,
  isNewGenerationAsked: false,
  snapshot: null as 'asked' | 'due' | null,
};

export function plan(
  newest: Manifest | null,
  connector: StoredConnector,
  wishes: Partial<typeof noWishes> = {},
  sinkId = 'sink-1',
): PublicationPlan {
  return planPublication(
    newest,
    { sinkId, connectors: [connector], removed: [] },
    { ...noWishes, ...wishes },
  );
}

/** The manifest that a plan leads to; every entity had one new row. */
export function publish(
  newest: Manifest | null,
  connector: StoredConnector,
  wishes: Partial<typeof noWishes> = {},
) {
  const { publication, entities, unchanged } = plan(newest, connector, wishes);
  const written = entities.map(({ planned, hasSnapshot }): PublishedEntity => {
    const { table: _table, isNewGeneration: _isNew, kinds: _kinds, described: _text, ...described } = planned;
    return {
      ...described,
      upserts: 1,
      deletes: 0,
      files: [],
      snapshot: hasSnapshot ? { rows: 1, files: [] } : null,
    };
  });
  return {
    format: 1,
    publication,
    previous: null,
    sink: 'sink-1',
    createdAt: '2026-03-01T11:00:00.000Z',
    by: { program: 'test', host: 'here' },
    entities: [...written, ...unchanged],
  } satisfies Manifest;
}

export function withColumns(...more: readonly Column[]): StoredEntity {
  return { ...storedMembers, table: { ...membersTable, columns: [...membersTable.columns, ...more] } };
}

/** Why members begin a new generation. */
export function reasonOf({ entities }: PublicationPlan): string | null {
  return entities.find(({ planned }) => planned.entity === members)?.reason ?? null;
}
