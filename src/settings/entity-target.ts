import { isDeclaredName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import type { ConnectorSettings, LocalSettings } from './settings.ts';
import { connectorNamed } from './chosen-connectors.ts';

/** What `<connector>/<entity>` on the command line names. */
export type EntityTarget = ReturnType<typeof targetsOf>[number];

/** Every table of a connector. */
export function targetsOf(connector: ConnectorSettings) {
  return [...connector.definition.entities.values()].flatMap((entity) => {
    const { table, explodedTable } = entity;
    const own = {
      /** As a person writes it. */
      name: `${connector.name}/${table.entity}`,
      connector,
      /** The entity, or the one whose records have the named rows as elements. */
      entity,
      table,
      /** The rows are elements of the entity's records. */
      isExploded: false,
    };
    return explodedTable === null
      ? [own]
      : [
          own,
          {
            ...own,
            name: `${connector.name}/${explodedTable.entity}`,
            table: explodedTable,
            isExploded: true,
          },
        ];
  });
}

/** Throws USAGE, naming what there is. */
export function entityTarget(settings: LocalSettings, text: string): EntityTarget {
  const [connectorText = '', entityText = '', ...rest] = text.split('/');
  if (entityText === '' || rest.length > 0) throw usage(`Expected <connector>/<entity>, got "${text}".`);
  const connector = connectorNamed(settings, connectorText);
  const targets = targetsOf(connector);
  const target = isDeclaredName(entityText)
    ? targets.find(({ table }) => table.entity === entityText)
    : undefined;
  if (target !== undefined) return target;
  const names = targets.map(({ table }) => table.entity).join(', ');
  throw usage(`Expected one of the entities ${names}, got "${entityText}".`);
}

/** Every entity of the connector that `<connector>` on the command line names; elements go with their records. */
export function connectorTargets(settings: LocalSettings, name: string): readonly EntityTarget[] {
  return targetsOf(connectorNamed(settings, name)).filter(({ isExploded }) => !isExploded);
}
