import type { EntityName } from '../core/names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import type { ConnectorStatus } from '../sinks/ledger-reader.ts';
import type { ChosenEntities } from './chosen-entities.ts';

export interface CallEstimate {
  readonly entity: EntityName;
  /** Null where nothing is known yet. */
  readonly calls: number | null;
  /** What the figure rests on, for people. */
  readonly basis: string;
}

/** Calls that a full read will need, from what the ledger knows of the last one. Offset walks reread ten rows a page. */
export function estimateCalls(options: {
  readonly definition: Definition;
  readonly entities: ChosenEntities;
  readonly status: ConnectorStatus | null;
}): readonly CallEstimate[] {
  return [...options.entities.keys()].flatMap((name): CallEstimate[] => {
    const entity = options.definition.entities.get(name);
    if (entity === undefined) return [];
    const last = options.status?.lastRun;
    const pages = last?.report?.entities.find((report) => report.entity === name)?.pages ?? 0;
    if (last?.state === 'ok' && last.continues === null && pages > 0) {
      return [{ entity: name, calls: pages, basis: 'as in the last run' }];
    }
    const known = options.status?.entities.find((status) => status.entity === name);
    if (known === undefined || known.lastSealedAt === null) {
      return [
        {
          entity: name,
          calls: null,
          basis:
            entity.parents.length === 0
              ? 'not read yet: at least 1'
              : `not read yet: at least 1 per record of ${entity.parents.map((parent) => parent.entity).join(' or ')}`,
        },
      ];
    }
    return [
      {
        entity: name,
        calls: callsFor(entity, known.rows, known.partitions),
        basis: `${known.rows} rows in ${known.partitions} partitions at the last read`,
      },
    ];
  });
}

function callsFor(entity: Entity, rows: number, partitions: number): number {
  const { pagination } = entity;
  switch (pagination.kind) {
    case 'single':
      return partitions;
    case 'pageToken':
      return partitions + Math.floor(rows / (pagination.maxSize ?? 100));
    case 'offset': {
      const further = Math.floor(rows / (pagination.maxSize - 10));
      return partitions + further + (further > 0 ? 1 : 0);
    }
  }
}
