import { usage } from '../../../core/usage-error.ts';
import type { CredentialShape, Definition } from '../../../definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../../definitions/load-definitions.ts';

/** A connector of the config that is written, which reads its service itself. */
export interface DirectConnector {
  readonly name: string;
  readonly definition: string;
  /** As people know the service. */
  readonly service: string;
  /** Of its credentials: the field, and the variable that it is read from. */
  readonly variables: readonly (readonly [field: string, variable: string])[];
}

/** As in the other configs that this program writes. */
const usualNames: ReadonlyMap<string, string> = new Map([
  ['email-marketing', 'newsletter'],
  ['workspace-notes', 'wiki'],
]);

/** `names`: of connector types, or their aliases. Throws USAGE, naming those that can be read directly. */
export function directConnectors(names: readonly string[]): readonly DirectConnector[] {
  const definitions = [...loadDefinitions([builtInDefinitionsFolder]).values()];
  const readable = definitions.filter(({ upstream }) => upstream !== null);
  const chosen = names.map((name) => {
    const found = readable.find(
      (one) => one.name === name || one.aliases.some((alias) => alias.toLowerCase() === name.toLowerCase()),
    );
    if (found !== undefined) return found;
    const known = readable.map((one) => [one.name, ...one.aliases].join(' or ')).join(', ');
    throw usage(`--direct: expected a service that can be read directly (${known}), got "${name}".`);
  });
  return [...new Set(chosen)].map(directConnector);
}

function directConnector(definition: Definition): DirectConnector {
  const { name, aliases } = definition;
  const service = aliases[0] ?? name;
  const prefix = service.replaceAll(/[^A-Za-z0-9]+/g, '_').toUpperCase();
  const fields = [...(simplestWay(definition)?.fields ?? [])].filter(([, { isRequired }]) => isRequired);
  return {
    name: usualNames.get(name) ?? name,
    definition: name,
    service,
    variables: fields.map(([field]) => [field, `${prefix}_${field.toUpperCase()}`]),
  };
}

/** The first with the fewest fields to fill in. */
function simplestWay({ credentials }: Definition): CredentialShape | undefined {
  const required = ({ fields }: CredentialShape): number =>
    [...fields.values()].filter(({ isRequired }) => isRequired).length;
  return credentials.toSorted((left, right) => required(left) - required(right))[0];
}

/** As YAML below `connectors`. */
export function directConnectorText({ name, definition, service, variables }: DirectConnector): string {
  const credentials = variables.map(([field, variable]) => `${field}: "\${${variable}}"`).join(', ');
  return `  ${name}:
    definition: ${definition} # ${service}
    credentials: { ${credentials} } # or "\${file:./secret}", a file that only you can read
    sink: main
    schedule: { every: 1h }
`;
}
