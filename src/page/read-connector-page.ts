import { healthOf } from '../app/connector-health.ts';
import { overviewOf } from '../app/connector-states.ts';
import { readConnectorHistory } from '../app/read-history.ts';
import { readStatuses, type StoredConnector } from '../app/read-statuses.ts';
import { readShownProgress } from '../app/shown-progress.ts';
import { isGone } from '../app/shared-work.ts';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import { isDeclaredName, type EntityName } from '../core/names.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { EntityStatus } from '../sinks/ledger-reader.ts';

export type ConnectorData = Extract<Awaited<ReturnType<typeof readConnectorPage>>, { kind: 'read' }>;

/**
 * What `status`, `schema diff`, `runs` and `actions` say of one connector, of each list the newest `shown`;
 * `unreadable`: why its sink cannot be read.
 */
export async function readConnectorPage(
  settings: LocalSettings,
  connector: ConnectorSettings,
  watched: WatchedSinks,
  { nowMs, shown }: { readonly nowMs: number; readonly shown: number },
) {
  const { overviews, unreadable } = await watched.overviews();
  const away = unreadable.find(({ sink }) => sink.name === connector.sink.name);
  if (away !== undefined) return { kind: 'unreadable', problem: away.problem } as const;
  const overview = overviewOf(overviews, connector);
  const [stored] = await readStatuses([connector], overviews);
  const past = await readConnectorHistory(connector, { limit: shown, nowMs });
  const [newest] = past.runs;
  return {
    kind: 'read',
    connector,
    overview,
    health: stored?.health ?? healthOf(connector, overview, nowMs),
    stored: stored ?? null,
    entities: stored === undefined ? [] : entityTree(connector, stored),
    past,
    shown,
    /** What the run in progress has done so far; null: there is none. */
    running:
      newest?.state === 'running'
        ? {
            run: newest,
            counts: past.counts,
            progress: readShownProgress(past.progress),
            isLost: isLost(stored),
          }
        : null,
    targets: [...settings.publish.values()].filter((target) => target.connectors.includes(connector)),
  } as const;
}

/** Its process was on this machine and has ended: the next run resumes from what it stored. */
function isLost(stored: StoredConnector | undefined): boolean {
  const holder = stored?.status?.lastHolder;
  return holder !== undefined && isGone(holder);
}

export interface PlacedEntity {
  readonly entity: EntityName;
  /** How many entities lead to it. */
  readonly depth: number;
  /** Null: nothing of it is stored yet. */
  readonly status: EntityStatus | null;
}

/** Entities below those that lead to them, then what is stored of others. */
function entityTree(
  { entities, definition }: ConnectorSettings,
  { status }: Pick<StoredConnector, 'status'>,
): readonly PlacedEntity[] {
  const known = new Map((status?.entities ?? []).map((one) => [one.entity, one]));
  const placed = new Map<EntityName, PlacedEntity>();
  const place = (entity: EntityName, depth: number): void => {
    if (placed.has(entity)) return;
    placed.set(entity, { entity, depth, status: known.get(entity) ?? null });
    const elements = definition.entities.get(entity)?.explodedTable?.entity;
    if (elements !== undefined && isDeclaredName(elements)) place(elements, depth + 1);
    for (const [name, { parents }] of entities) {
      if (parents[0] === entity) place(name, depth + 1);
    }
  };
  for (const [name, { parents }] of entities) {
    if (parents[0] === undefined || !entities.has(parents[0])) place(name, 0);
  }
  for (const name of [...entities.keys(), ...known.keys()]) place(name, 0);
  return [...placed.values()];
}
