import path from 'node:path';
import { usage } from '../../../core/usage-error.ts';
import { openTarget } from '../../../publish/open-target.ts';
import { catalogueOf } from '../../../publish/schema/catalogue.ts';
import { dialectNames, generate } from '../../../publish/schema/generate.ts';
import { generatedText } from '../../../publish/schema/generated-file.ts';
import { readPublished, type PublishedState } from '../../../publish/schema/read-published.ts';
import { chosenConnectors } from '../../../settings/chosen-connectors.ts';
import { targetNamed } from '../../../settings/chosen-targets.ts';
import { checkTargets } from '../../../settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../../../settings/settings.ts';
import { command, type CommandContext } from '../../command.ts';
import { writeGenerated, type WrittenFile } from './write-generated.ts';

export const publishSchema = command({
  description: 'Write dbt sources, or statements that make and load tables, for what a target holds.',
  argument: ['[target]', 'a name below "publish:" in the config; may be left out where there is one'],
  options: {
    '--dialect <name>': { text: dialectNames.join(', '), isRequired: true },
    '--output <folder>': 'write files there; needed for dbt',
  },
  help: `
Names, columns and files are those of the newest publication, or of the connector types where nothing is published. The files
are meant to be committed: your umask decides who can read them. A file that was edited is left alone, and the new text is written
beside it as <file>.new.

Examples:
  $ connector-sync publish schema --dialect dbt --output ./analytics
  $ connector-sync publish schema --dialect duckdb lake | duckdb lake.duckdb`,
  run: async (context, { dialect, output }, name) => {
    if (!dialectNames.includes(dialect)) {
      throw usage(`--dialect: expected one of ${dialectNames.join(', ')}, got "${dialect}".`);
    }
    if (dialect === 'dbt' && output === undefined) {
      throw usage(
        '--dialect dbt makes a file for each connector: name the folder of the dbt project with --output.',
      );
    }
    const settings = await context.settings();
    const target = targetOf(settings, name);
    const published = target === null ? null : await publishedOf(target, context);
    const catalogue = catalogueOf(target?.connectors ?? chosenConnectors(settings, []), target, published);
    const files = generate(catalogue, dialect);
    const head = { dialect, target: target?.name ?? null, publication: catalogue.publication };
    if (output === undefined) {
      const texts = files.map((file) => ({ path: file.path, text: generatedText(file) }));
      context.terminal.printJson({ ...head, files: texts });
      if (!context.terminal.isJson) {
        await context.terminal.printRecords(texts.map(({ text }) => text).join('\n'));
      }
      return;
    }
    const folder = path.resolve(context.cwd, output);
    const written = writeGenerated(folder, files);
    tell(context, folder, written);
    context.terminal.printJson({ ...head, folder, files: written });
  },
});

async function publishedOf(
  target: PublishSettings,
  { clock, signal }: CommandContext,
): Promise<PublishedState | null> {
  await using opened = await openTarget(target, { clock, signal });
  return await readPublished(opened);
}

/** Null where the config has none. Throws USAGE, naming those that there are. */
function targetOf(settings: LocalSettings, name: string | undefined): PublishSettings | null {
  const [only = null, ...others] = settings.publish.values();
  if (name === undefined && others.length > 0) {
    throw usage(
      `Expected one of the targets ${[...settings.publish.keys()].join(', ')}: the config has several.`,
    );
  }
  const target = name === undefined ? only : targetNamed(settings, name);
  if (target !== null) checkTargets(settings, [target]);
  return target;
}

function tell({ terminal }: CommandContext, folder: string, files: readonly WrittenFile[]): void {
  const count = (outcome: WrittenFile['outcome']): number =>
    files.filter((file) => file.outcome === outcome).length;
  terminal.print(`${folder}: ${count('written')} written, ${count('unchanged')} unchanged`);
  for (const { path: file, outcome } of files) {
    const remark = remarks[outcome];
    if (remark !== null) terminal.note(`${file} ${remark.replace('<file>', file)}`);
  }
}

const remarks: Readonly<Record<WrittenFile['outcome'], string | null>> = {
  written: null,
  unchanged: null,
  beside: 'was edited and is left as it is; the new text is in <file>.new',
  edited: 'was edited and is left as it is; nothing in it is out of date',
  stale: 'was generated earlier and is no longer part of it: remove it',
};
