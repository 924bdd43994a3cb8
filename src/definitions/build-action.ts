import type { Action, Param } from './definition.ts';
import type { ActionFile, ParamFile } from './definition-file.ts';

/** An action as the other rooms know it. */
export function buildAction(file: ActionFile): Action {
  return {
    params: buildParams(file.params),
    key: new Map(Object.entries(file.key)),
    file: 'file' in file ? file.file : null,
  };
}

function buildParams(file: Readonly<Record<string, ParamFile>>): ReadonlyMap<string, Param> {
  return new Map(Object.entries(file).map(([name, param]) => [name, buildParam(param)]));
}

function buildParam(file: ParamFile): Param {
  const { members, ...param } = file;
  return members === null ? param : { ...param, members: buildMembers(members) };
}

function buildMembers(file: NonNullable<ParamFile['members']>): ReadonlyMap<string, Param> {
  return new Map(Object.entries(file));
}
