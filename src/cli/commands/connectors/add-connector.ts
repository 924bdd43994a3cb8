import { dirname, relative, resolve } from 'node:path';
import { isConnectorName } from '../../../core/names.ts';
import { ProblemsError } from '../../../core/problems.ts';
import { usage } from '../../../core/usage-error.ts';
import { namePattern } from '../../../definitions/check-names.ts';
import { addedConnector, connectorsPlace, type ConnectorsPlace } from '../../../settings/edit-connectors.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import { command, type CommandContext, type FlagsOf } from '../../command.ts';
import { configFile } from '../../load-config.ts';
import { checkedHere, reloadCommands, writeEdit } from './edit-config.ts';

const options = {
  '--definition <type>': 'the connector type (default: the one in "defaults" of the config)',
  '--id <id>': 'its id in the API, as "connectors list" shows it',
  '--workspace <name>': 'the workspace in which the API has the only connector of this type',
  '--credentials-env <field=VARIABLE...>':
    'no API: a field of its credentials, and the environment variable that holds it',
  '--credentials-file <field=file...>': 'the same in a file that only you can read',
  '--sink <name>': 'where its records go (default: "defaults" of the config, or the only sink)',
  '--every <duration>': 'how often the worker runs it: 30m, 1h, 1d',
  '--cron <pattern>': 'the same as five fields, such as "0 4 * * *"',
  '--timezone <name>': 'of --cron, such as Europe/Berlin (default: UTC)',
  '--fresh-within <duration>': 'how old its data may be before it counts as late',
  '--file <file>': 'which file of "connectors:" it goes into; a new one too',
} as const;

export const addConnector = command({
  description: 'Add a connector to the config file, whose comments stay; checks the config first.',
  argument: ['<name>', 'its name in the config: the prefix of its tables'],
  options,
  help: `
The config is checked with the new connector before anything is written, and the file is replaced as a whole. Secrets are
never written into it: it names the variable or the file that holds them. Other settings of a connector are added by hand.

Examples:
  $ connector-sync connectors add newsletter --definition email-marketing --workspace acme --every 1h
  $ connector-sync connectors add wiki --definition workspace-notes --credentials-env token=NOTION_TOKEN
  $ connector-sync connectors add acme --id 6f9c2d1e --file connectors/acme.yaml`,
  run: async (context, flags, name) => {
    const settings = await context.settings();
    const file = configFile(context);
    const { env, cwd, terminal, program } = context;
    if (!isConnectorName(name)) {
      throw usage(`Expected a name of ${namePattern('_ or -')}, got "${name}".`);
    }
    if (settings.connectors.has(name)) {
      throw usage(`The config has a connector ${name} already. Choose another name, or edit ${file}.`);
    }
    const place = connectorsPlace({ file, env }, flags.file === undefined ? null : resolve(cwd, flags.file));
    const entry = entryOf(context, settings, place, flags);
    const edit = await checkedHere(context, () => {
      const added = addedConnector({ file, env }, place.file, { name, entry });
      const missing = added.settings.missing.filter(({ path }) => path.startsWith(`connectors.${name}.`));
      if (missing.length > 0) throw new ProblemsError('CONFIG_INVALID', missing);
      return added;
    });
    const connector = edit.settings.connectors.get(name);
    if (connector === undefined) throw new TypeError(`${name} was added and is not there`);
    writeEdit(context, edit);
    const isSignedIn = connector.address.kind === 'direct' && connector.address.signIn !== null;
    const workers = connector.schedule === null ? null : await reloadCommands(edit.settings);
    const commands = [...(isSignedIn ? [`login ${name}`] : []), ...(workers ?? [`sync ${name}`])];
    terminal.printJson({ connector: name, file: edit.file, entry, next: commands });
    terminal.print(
      `Added ${name} to ${relative(cwd, edit.file) || edit.file}.`,
      ...commands.map((one) => `Next: ${program} ${one}`),
    );
  },
});

/** As it is written below `connectors`. */
function entryOf(
  { env, cwd }: CommandContext,
  { sinks, definitions }: LocalSettings,
  { file, defaults }: ConnectorsPlace,
  flags: FlagsOf<typeof options>,
) {
  const { definition, id, workspace, every, cron, timezone, freshWithin } = flags;
  if (definition === undefined && !defaults.has('definition')) {
    throw usage(`--definition: expected a connector type; known are ${[...definitions.keys()].join(', ')}.`);
  }
  const [onlySink, ...otherSinks] = sinks.keys();
  const isSinkGiven = flags.sink !== undefined || defaults.has('sink');
  if (!isSinkGiven && otherSinks.length > 0) {
    throw usage(`--sink: expected one of ${[...sinks.keys()].join(', ')}.`);
  }
  const credentials = {
    ...referred('--credentials-env', flags.credentialsEnv, (name) =>
      /^[A-Za-z_]\w*$/.test(name) && (env[name] ?? '') !== '' ? name : null,
    ),
    ...referred('--credentials-file', flags.credentialsFile, (name) => {
      const path = relative(dirname(file), resolve(cwd, name));
      return /[{}]/.test(path) ? null : `file:${path.startsWith('.') ? path : `./${path}`}`;
    }),
  };
  const schedule = {
    ...(every === undefined ? {} : { every }),
    ...(cron === undefined ? {} : { cron }),
    ...(timezone === undefined ? {} : { timezone }),
  };
  return {
    ...(definition === undefined ? {} : { definition }),
    ...(id === undefined ? {} : { id }),
    ...(workspace === undefined ? {} : { workspace }),
    ...(Object.keys(credentials).length === 0 ? {} : { credentials }),
    ...(isSinkGiven && flags.sink === undefined ? {} : { sink: flags.sink ?? onlySink }),
    ...(Object.keys(schedule).length === 0 ? {} : { schedule }),
    ...(freshWithin === undefined ? {} : { freshWithin }),
  };
}

/**
 * References by field. No value is repeated in an error: where a secret itself was given, it must not be shown, and a
 * name that nothing here has may be one.
 */
function referred(
  flag: string,
  given: readonly string[],
  referenceOf: (name: string) => string | null,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    given.map((text) => {
      const [, field, name = ''] = /^([A-Za-z0-9_-]+)=(.+)$/s.exec(text) ?? [];
      const reference = field === undefined ? null : referenceOf(name);
      if (field !== undefined && reference !== null) return [field, `\${${reference}}`];
      const expected =
        flag === '--credentials-env'
          ? 'field=VARIABLE with the name of a variable that is set here or in .env'
          : 'field=file with the path of a file, without { and }';
      throw usage(
        `${flag}: expected ${expected}${field === undefined ? '' : `; that of ${field} is none`}. Never the secret itself.`,
      );
    }),
  );
}
