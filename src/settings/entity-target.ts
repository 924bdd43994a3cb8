import { isDeclaredName } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import type { Entity } from '../definitions/definition.ts';
import type { ConnectorSettings, LocalSettings } from './settings.ts';
import { connectorNamed } from './chosen-connectors.ts';

/** What `<connector>/<entity>` on the command line names. */
export interface EntityTarget {
  /** As a person wrote it. */
  readonly name: string;
  readonly connector: ConnectorSettings;
  /** The entity, or the one whose records have the named rows as elements. */
  readonly entity: Entity;
  readonly table: EntityTable;
  /** The rows are elements of the entity's records. */
  readonly isExploded: boolean;
}

/** Throws USAGE, naming what there is. */
export function entityTarget(settings: LocalSettings, text: string): EntityTarget {
  const [connectorText = '', entityText = '', ...rest] = text.split('/');
  if (entityText === '' || rest.length > 0) throw usage(`Expected <connector>/<entity>, got "${text}".`);
  const connector = connectorNamed(settings, connectorText);
  const targets = [...connector.definition.entities.values()].flatMap((entity): EntityTarget[] => {
    const own = { name: text, connector, entity, table: entity.table, isExploded: false };
    const { explodedTable } = entity;
    return explodedTable === null ? [own] : [own, { ...own, table: explodedTable, isExploded: true }];
  });
  const target = isDeclaredName(entityText)
    ? targets.find(({ table }) => table.entity === entityText)
    : undefined;
  if (target !== undefined) return target;
  const names = targets.map(({ table }) => table.entity).join(', ');
  throw usage(`Expected one of the entities ${names}, got "${entityText}".`);
}
