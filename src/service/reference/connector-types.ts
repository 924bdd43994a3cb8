import type { Action, ActionName, Definition, Param } from '../../definitions/definition.ts';

/** What execute takes for the connectors of one type. */
export interface ConnectorType {
  readonly name: string;
  readonly title: string;
  readonly id: string;
  readonly actions: readonly TypeAction[];
}

interface TypeAction {
  readonly entity: string;
  readonly action: ActionName;
  readonly params: readonly TypeParam[];
  /** Fields that a search returns and can be asked for; empty for other actions. */
  readonly fields: readonly string[];
}

interface TypeParam {
  readonly name: string;
  readonly type: Param['type'];
  readonly required: boolean;
  readonly enum: readonly string[] | null;
  readonly default: Param['default'];
  readonly maximum: number | null;
}

export function connectorTypes(definitions: Iterable<Definition>): readonly ConnectorType[] {
  return [...definitions].map(({ name, title, id, entities }) => ({
    name,
    title,
    id,
    actions: [...entities.values()].flatMap((entity) =>
      [...entity.actions].map(([action, declared]) => ({
        entity: entity.name,
        action,
        params: paramsOf(declared),
        fields: action === 'context_store_search' ? [...entity.searchable.keys()] : [],
      })),
    ),
  }));
}

function paramsOf({ params }: Action): readonly TypeParam[] {
  return [...params].map(([name, { type, required, enum: values, default: preset, max }]) => ({
    name,
    type,
    required,
    enum: values,
    default: preset,
    maximum: max,
  }));
}
