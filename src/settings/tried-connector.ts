import { isConnectorName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import { servedDefinition, type Definition } from '../definitions/definition.ts';
import { buildDirect } from './build-direct.ts';
import type { ConnectorSettings, ReadConnector } from './settings.ts';

/** A connector that no config has, at this address, with the rates of its definition. */
export function triedConnector(definition: Definition, address: ConnectorSettings['address']): ReadConnector {
  const { name, rateLimit } = definition;
  if (!isConnectorName(name)) throw new TypeError(`expected the name of a checked definition, got ${name}`);
  return {
    name,
    definition: address.kind === 'direct' ? definition : servedDefinition(definition),
    address,
    ...rateLimit,
  };
}

/**
 * The service itself, with these credentials. Throws USAGE with everything that is wrong with them; `placeOf` names
 * the place of a field, or (null) of all of them.
 */
export function triedCredentials(
  definition: Definition,
  given: Readonly<Record<string, string>>,
  placeOf: (field: string | null) => string,
): ConnectorSettings['address'] {
  const problems: string[] = [];
  const address = buildDirect({}, given, definition, {
    at: [],
    note: ([, field], message) => {
      problems.push(`${placeOf(field === undefined ? null : String(field))}: ${message}`);
    },
  });
  if (problems.length > 0 || address === null) throw usage(problems.join('\n'));
  return address;
}
