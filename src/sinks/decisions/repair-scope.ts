import type { ConnectorName, EntityName } from '../../core/names.ts';
import { usage } from '../../core/usage-error.ts';
import { IdentityChangedError } from '../acquire-errors.ts';
import type { AdoptedIdentity, ResetScope } from '../repair.ts';

/** The entity with what its records are exploded into; null: all of the connector. */
export function resetEntities({ entity, tables }: ResetScope): readonly EntityName[] | null {
  return entity === null ? null : [...new Set([entity, ...tables.map((table) => table.entity)])];
}

/**
 * `known`: every entity of which there is anything; null where the connector is unknown. Throws USAGE where there is
 * nothing to forget.
 */
export function checkReset(
  connector: ConnectorName,
  { entity, tables }: ResetScope,
  known: readonly EntityName[] | null,
): void {
  const [walked] = tables;
  if (entity !== null && walked !== undefined && walked.entity !== entity) {
    throw usage(
      `Rows of "${entity}" are made from records of "${walked.entity}" and are read with them. Reset ${connector}/${walked.entity}.`,
    );
  }
  if (entity === null ? known !== null : known?.includes(entity) === true) return;
  const what = entity === null ? `connector "${connector}"` : `${connector}/${entity}`;
  throw usage(
    `The sink holds nothing of ${what}: it has never been read. Check the name; \`status\` lists what is there.`,
  );
}

/**
 * `definition`: the connector type that is stored; undefined where the sink holds nothing. Throws USAGE, and
 * `IdentityChangedError` for another type.
 */
export function checkAdoption({ connector, definition }: AdoptedIdentity, stored: string | undefined): void {
  if (stored === undefined) {
    throw usage(`The sink holds nothing of connector "${connector}". Sync it, there is nothing to adopt.`);
  }
  if (stored !== definition) {
    throw new IdentityChangedError(connector, [{ what: 'definition', stored, given: definition }]);
  }
}
