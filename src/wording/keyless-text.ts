import { firstNames } from '../definitions/suggest-name.ts';
import type { ConnectorSettings } from '../settings/settings.ts';

/** What is to be known of entities without a key that a connector reads; empty: it reads none. */
export function keylessText({
  definition,
  entities,
}: Pick<ConnectorSettings, 'definition' | 'entities'>): string {
  const keyless = [...definition.entities.values()].filter(
    ({ name, isKeyless }) => isKeyless === true && entities.has(name),
  );
  if (keyless.length === 0) return '';
  const names = firstNames(keyless.map(({ name }) => name));
  return `without a key: ${names} (a record that changes is another row, and none counts as deleted)`;
}
