import { resolve } from 'node:path';
import { usage } from '../../../core/usage-error.ts';
import { shapeText } from '../../../definitions/params.ts';
import type { CredentialShape, Definition } from '../../../definitions/definition.ts';
import {
  builtInDefinitionsFolder,
  loadDefinition,
  loadDefinitions,
} from '../../../definitions/load-definitions.ts';

/** As in the other configs that this program writes. */
const usualNames: ReadonlyMap<string, string> = new Map([
  ['email-marketing', 'newsletter'],
  ['workspace-notes', 'wiki'],
]);

/** A definition file, and not the name of a type. */
export const isFile = (name: string): boolean => /\.ya?ml$/.test(name);

/** `names`: of types, their aliases, or definition files. Throws USAGE, naming those that can be read directly. */
export function directConnectors(names: readonly string[], cwd: string) {
  const definitions = [...loadDefinitions([builtInDefinitionsFolder]).values()];
  const readable = definitions.filter(({ upstream }) => upstream !== null);
  const chosen = names.map((name) => {
    const own = isFile(name) ? loadDefinition(resolve(cwd, name)) : null;
    if (own !== null && own.upstream !== null) return own;
    if (own !== null) {
      throw usage(
        `--direct: ${name} is for connectors behind an API (hosted) and has no upstream. For the service itself import with --mode direct; for the API: init --base-url <address>.`,
      );
    }
    const found = readable.find(
      (one) => one.name === name || one.aliases.some((alias) => alias.toLowerCase() === name.toLowerCase()),
    );
    if (found !== undefined) return found;
    const known = readable.map((one) => [one.name, ...one.aliases].join(' or ')).join(', ');
    throw usage(`--direct: expected a service that can be read directly (${known}), got "${name}".`);
  });
  return [...new Set(chosen)].map(directConnector);
}

/** A connector of the config that is written, which reads its service itself. */
function directConnector(definition: Definition) {
  const { name, aliases } = definition;
  const service = aliases[0] ?? name;
  const prefix = service.replaceAll(/[^A-Za-z0-9]+/g, '_').toUpperCase();
  const way = simplestWay(definition);
  const fields = [...(way?.fields ?? [])].filter(([, { isRequired }]) => isRequired);
  const others = definition.credentials.filter(({ title }) => title !== way?.title);
  return {
    /** Ways to sign in besides the one that is written. */
    others: others.map(shapeText),
    needsLogin: definition.upstream?.auth.get(way?.title ?? '')?.kind === 'authorizationCode',
    name: usualNames.get(name) ?? name,
    definition: name,
    /** As people know the service. */
    service,
    /** Of its credentials: the field, and the variable that it is read from. */
    variables: fields.map(([field]) => [field, `${prefix}_${field.toUpperCase()}`] as const),
  };
}

/** The first with the fewest fields to fill in. */
function simplestWay({ credentials }: Definition): CredentialShape | undefined {
  const required = ({ fields }: CredentialShape): number =>
    [...fields.values()].filter(({ isRequired }) => isRequired).length;
  return credentials.toSorted((left, right) => required(left) - required(right))[0];
}

/** As YAML below `connectors`. */
export function directConnectorText(connector: ReturnType<typeof directConnector>): string {
  const { name, definition, service, variables, others } = connector;
  const known = service === definition ? '' : ` # ${service}`;
  const ways = others.map((way) => `    # or sign in by ${way}\n`).join('');
  const credentials = variables.map(([field, variable]) => `${field}: "\${${variable}}"`).join(', ');
  return `  ${name}:
    definition: ${definition}${known}
${ways}    credentials: { ${credentials} } # or "\${file:./secret}", a file that only you can read
    sink: main
    schedule: { every: 1h }
`;
}
