import { isDeclaredName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import type { LocalSettings } from './settings.ts';
import { connectorNamed } from './chosen-connectors.ts';

/** What `<connector>/<entity>` on the command line names. */
export type EntityTarget = ReturnType<typeof entityTarget>;

/** Throws USAGE, naming what there is. */
export function entityTarget(settings: LocalSettings, text: string) {
  const [connectorText = '', entityText = '', ...rest] = text.split('/');
  if (entityText === '' || rest.length > 0) throw usage(`Expected <connector>/<entity>, got "${text}".`);
  const connector = connectorNamed(settings, connectorText);
  const targets = [...connector.definition.entities.values()].flatMap((entity) => {
    const own = {
      /** As a person wrote it. */
      name: text,
      connector,
      /** The entity, or the one whose records have the named rows as elements. */
      entity,
      table: entity.table,
      /** The rows are elements of the entity's records. */
      isExploded: false,
    };
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

/** Every entity of the connector that `<connector>` on the command line names; elements go with their records. */
export function connectorTargets(settings: LocalSettings, name: string): readonly EntityTarget[] {
  const connector = connectorNamed(settings, name);
  return [...connector.definition.entities.values()].map((entity) => {
    const { table } = entity;
    return { name: `${name}/${table.entity}`, connector, entity, table, isExploded: false };
  });
}
