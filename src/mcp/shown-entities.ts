import { isLikeGlob } from '../core/glob.ts';
import type { Column, EntityTable } from '../core/records.ts';
import { usage } from '../core/usage-error.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import { entityTarget, type EntityTarget } from '../settings/entity-target.ts';
import type { Exclusion } from '../settings/build-mcp.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';

/** An entity that agents may see. */
export interface ShownEntity {
  readonly target: EntityTarget;
  /** Names of its declared columns that agents may see; null: all that is stored, undeclared fields too. */
  readonly only: ReadonlySet<string> | null;
  /** Of those that a search of it reads, which joins records and the elements that are stored as rows of their own. */
  readonly searched: ReadonlySet<string> | null;
}

export type ShownEntities = ReturnType<typeof shownEntities>;

/** What of the config agents may see: the rest is not there for them, by no tool and in no message. */
export function shownEntities(settings: LocalSettings) {
  const { connectors: globs, exclude } = settings.mcp;
  const connectors = [...settings.connectors.values()].filter(
    ({ name }) => globs.length === 0 || globs.some((glob) => isLikeGlob(name, glob)),
  );
  const shown = (connector: ConnectorSettings): readonly ShownEntity[] =>
    tablesOf(connector).flatMap((name) => {
      const found = shownEntity(entityTarget(settings, `${connector.name}/${name}`), exclude);
      return found === null ? [] : [found];
    });
  const connectorNamed = (name: string): ConnectorSettings => {
    const found = connectors.find((connector) => connector.name === name);
    if (found !== undefined) return found;
    const names = connectors.map((connector) => connector.name);
    throw usage(
      `There is no connector "${name}"${suggestName(name, names) || '.'} list_entities names them.`,
    );
  };
  return {
    connectors,
    of: shown,
    connectorNamed,
    /** Of `<connector>/<entity>`. Throws USAGE for one that agents do not see. */
    named: (text: string): ShownEntity => {
      const [connectorText = '', entityText = '', ...rest] = text.split('/');
      if (entityText === '' || rest.length > 0) {
        throw usage(`expected an entity as <connector>/<entity>, got "${text}". list_entities names them.`);
      }
      const all = shown(connectorNamed(connectorText));
      const found = all.find(({ target }) => target.table.entity === entityText);
      if (found !== undefined) return found;
      const names = all.map(({ target }) => target.table.entity);
      throw usage(
        `${connectorText} has no entity "${entityText}"${suggestName(entityText, names) || '.'} list_entities with name "${connectorText}" names them.`,
      );
    },
  };
}

function tablesOf({ definition }: ConnectorSettings): readonly string[] {
  return [...definition.entities.values()].flatMap(({ table, explodedTable }) => [
    table.entity,
    ...(explodedTable === null ? [] : [explodedTable.entity]),
  ]);
}

/**
 * Null: agents do not see it. Where a field is excluded, undeclared fields are not shown either: the excluded one may
 * come among them, under another name.
 */
function shownEntity(target: EntityTarget, exclude: readonly Exclusion[]): ShownEntity | null {
  const { connector, entity, table, isExploded } = target;
  const of = exclude.filter((one) => one.connector === null || one.connector === connector.name);
  const fieldsOf = (name: string | undefined) =>
    of.filter((one) => one.entity === name).map(({ field }) => field);
  const { explode, explodedTable } = entity;
  const [ofRecord, ofElements] = [fieldsOf(entity.name), fieldsOf(explodedTable?.entity)];
  const hasNoElements = [...ofElements, ...ofRecord].some((one) => one === null || one === explode?.field);
  if (isExploded ? hasNoElements : ofRecord.includes(null)) return null;
  // A name that is hidden in one of the two is hidden in both: a search joins them.
  const hidden = new Set([...ofRecord, ...ofElements]);
  if (hidden.size === 0) return { target, only: null, searched: null };
  const shown = ({ columns }: EntityTable): readonly string[] =>
    columns.map(({ name }) => name).filter((name) => !hidden.has(name));
  const elements = explodedTable === null || hasNoElements ? [] : shown(explodedTable);
  return {
    target,
    only: new Set(shown(table)),
    searched: new Set([...shown(entity.table), ...elements]),
  };
}

/** The stored columns that are shown. */
export function columnsOf({ only }: ShownEntity, stored: EntityTable): readonly Column[] {
  return only === null ? stored.columns : stored.columns.filter(({ name }) => only.has(name));
}
