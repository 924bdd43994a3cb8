import { marks } from '../../output/text-table.ts';
import { readdirSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { usage } from '../../../core/errors.ts';
import { asRead, formatWithColumn } from '../../../core/problems.ts';
import { checkOwnDefinitions } from '../../../definitions/load-definitions.ts';
import { counted } from '../../../telemetry/format.ts';
import { command } from '../../command.ts';
import { exitCodes } from '../../output/exit-codes.ts';

export const checkFiles = command({
  description:
    'Report every mistake of definition files, with line, column and path, and each TODO; needs no config.',
  argument: ['<file...>', 'definition files, or folders of them'],
  help: '\nExample:\n  $ connector-sync definitions check my-definitions/*.yaml',
  run: async ({ terminal, cwd }, _flags, files) => {
    const byPath = new Map(
      files.flatMap((file) => filesAt(file, cwd)).map((file) => [resolve(cwd, file), file]),
    );
    const checked = checkOwnDefinitions([...byPath.keys()]).map((one) => ({
      ...one,
      problems: asRead(one.problems),
    }));
    const isSound = checked.every(({ problems }) => problems.length === 0);
    terminal.printJson({
      ok: isSound,
      files: checked.map(({ file, name, problems, definition }) => {
        return { file, definition: name, problems, todos: definition?.todos ?? [] };
      }),
    });
    for (const { file, definition, problems } of checked) {
      const shown = byPath.get(file) ?? file;
      if (definition === null) {
        terminal.print(`${marks.failed} ${shown}: ${counted(problems.length, 'mistake')}`);
        terminal.print(...problems.map((one) => `  ${formatWithColumn({ ...one, file: shown })}`));
      } else {
        const entities = counted(definition.entities.size, 'entity', 'entities');
        const { name, title, todos } = definition;
        const mark = todos.length === 0 ? marks.ok : marks.warning;
        terminal.print(`${mark} ${shown}: ${name} (${title}), ${entities}`);
        terminal.print(...todos.map(({ line, text }) => `  ${shown}:${line}: TODO ${text}`));
      }
    }
    return isSound ? exitCodes.ok : exitCodes.usage;
  },
});

/** Lists the definition files in a folder; any other name is a file. */
function filesAt(name: string, cwd: string): readonly string[] {
  if (statSync(resolve(cwd, name), { throwIfNoEntry: false })?.isDirectory() !== true) return [name];
  const found = readdirSync(resolve(cwd, name)).filter((one) => /\.ya?ml$/.test(one));
  if (found.length === 0) throw usage(`${name} has no definition files: expected *.yaml.`);
  return found.toSorted().map((one) => join(name, one));
}
