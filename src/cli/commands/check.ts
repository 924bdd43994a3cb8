import { chosenConnectors, sinksOf } from '../../settings/choices.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import { printable } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { gravestExitCode } from '../output/exit-codes.ts';
import { marks } from './check/check-result.ts';
import { runChecks } from './check/run-checks.ts';

export const check = command({
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options: { '--deep': 'read every closed JSONL file and compare its hash, not only its length' },
  help: `
Examples:
  $ connector-sync check --config config/connector-sync.yaml
  $ connector-sync check newsletter                  that connector, its sink and its targets`,
  run: async (context, { deep: isDeep }, names) => {
    // Without a valid config nothing else can be checked: its problems are the whole answer.
    const settings = withConnectors(await context.settings('access', 'redis', 'http'), names);
    const { terminal } = context;
    const results = await runChecks(context, settings, isDeep, ({ state, what, detail }) =>
      terminal.print(`${marks[state]} ${what}: ${printable(detail)}`),
    );
    terminal.printJson({ ok: results.every(({ state }) => state !== 'failed'), checks: results });
    return gravestExitCode(results.map(({ exitCode }) => exitCode));
  },
});

/** The settings with these connectors and what they are published to; all where none is named. */
function withConnectors<Of extends LocalSettings>(settings: Of, names: readonly string[]): Of {
  if (names.length === 0) return settings;
  const chosen = chosenConnectors(settings, names);
  return {
    ...settings,
    connectors: new Map(chosen.map((connector) => [connector.name, connector])),
    publish: new Map(
      [...settings.publish].filter(([, target]) => target.connectors.some((one) => chosen.includes(one))),
    ),
    sinks: new Map(sinksOf(chosen).map((sink) => [sink.name, sink])),
  };
}
