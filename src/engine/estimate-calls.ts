import type { EntityName } from '../core/names.ts';
import type { Definition, Entity } from '../definitions/definition.ts';
import type { ConnectorStatus, EntityStatus } from '../sinks/ledger-reader.ts';
import { styleOf } from '../pagination/pagination-of.ts';
import type { EntityReport } from '../sinks/run-report.ts';
import { isReadIncrementally, type ChosenEntities } from './chosen-entities.ts';

export interface CallEstimate {
  readonly entity: EntityName;
  /** Null where nothing is known yet. */
  readonly calls: number | null;
  /** What the figure rests on, for people. */
  readonly basis: string;
}

/** Calls that a run will need, by the last read. Offset walks reread ten rows a page. `isFull`: asked for in full. */
export function estimateCalls(options: {
  readonly definition: Definition;
  readonly entities: ChosenEntities;
  readonly status: ConnectorStatus | null;
  readonly isFull?: boolean;
}): readonly CallEstimate[] {
  return [...options.entities.keys()].flatMap((name): CallEstimate[] => {
    const entity = options.definition.entities.get(name);
    if (entity === undefined) return [];
    const known = options.status?.entities.find((status) => status.entity === name);
    const partial = options.isFull === true ? null : partialEstimate(entity, options.entities, known);
    if (partial !== null) return [partial];
    const last = options.status?.lastRun;
    const report = last?.report?.entities.find((one) => one.entity === name);
    if (last?.state === 'ok' && last.continues === null && isAllOf(report, known)) {
      return [{ entity: name, calls: report.pages, basis: 'as in the last run' }];
    }
    if (known === undefined || known.lastSealedAt === null) {
      const parents = entity.parents.map((parent) => parent.entity).join(' or ');
      const each = parents === '' ? '' : ` per record of ${parents}`;
      return [{ entity: name, calls: null, basis: `not read yet: at least 1${each}` }];
    }
    const calls = styleOf(entity.pagination).calls(known.rows, known.partitions);
    const basis = `${counted(known.rows, 'row')} in ${counted(known.partitions, 'partition')} at the last read`;
    return [{ entity: name, calls, basis }];
  });
}

/** Whether a run read every partition, and none of them for changes only. */
function isAllOf(report: EntityReport | undefined, known: EntityStatus | undefined): report is EntityReport {
  if (report === undefined || report.pages === 0 || report.incremental > 0) return false;
  const walks = Object.values(report.proofs).reduce((sum, ended) => sum + ended, 0);
  return walks >= (known?.partitions ?? 0);
}

function counted(value: number, one: string): string {
  return `${value.toLocaleString('en-US')} ${one}${value === 1 ? '' : 's'}`;
}

/** Null where everything will be read. */
function partialEstimate(
  entity: Entity,
  entities: ChosenEntities,
  known: EntityStatus | undefined,
): CallEstimate | null {
  const chosen = entities.get(entity.name);
  if (known === undefined || known.lastSealedAt === null || chosen === undefined) return null;
  if (isReadIncrementally(entity, chosen)) {
    return { entity: entity.name, calls: known.partitions, basis: 'only what changed since the last read' };
  }
  const ways = entity.parents.filter((parent) => chosen.parents.includes(parent.entity));
  if (ways.length === 0 || ways.some(({ marker }) => marker === null)) return null;
  const parents = ways.map((way) => way.entity).join(' or ');
  return { entity: entity.name, calls: null, basis: `only what changed: below ${parents} with changes` };
}
