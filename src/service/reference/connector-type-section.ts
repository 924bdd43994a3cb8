import type { ConnectorType } from './connector-types.ts';
import { markup, nothing, type Markup } from './markup.ts';

type TypeAction = ConnectorType['actions'][number];

/** The entities and actions of a connector type with their parameters, folded away until it is wanted. */
export function connectorTypeSection({ name, title, actions }: ConnectorType): Markup {
  return markup`<details id="type-${name}">
    <summary>Entities and actions of ${title} (<code>${name}</code>)</summary>
    <div class="wide" tabindex="0">
      <table class="actions">
        ${actions.map(actionRow)}
      </table>
    </div>
  </details> `;
}

function actionRow({ entity, action, params, fields }: TypeAction): Markup {
  return markup`<tr>
    <td><code>${entity}</code></td>
    <td><code>${action}</code></td>
    <td>
      ${params.map(paramText)}
      ${fields.length === 0 ? nothing : markup`<div class="type">Fields: ${fields.join(', ')}</div>`}
    </td>
  </tr> `;
}

function paramText({
  name,
  type,
  required,
  enum: values,
  maximum,
  default: preset,
}: TypeAction['params'][number]): Markup {
  const facts = [
    values === null ? type : values.join(' or '),
    ...(preset === null ? [] : [`default ${String(preset)}`]),
    ...(maximum === null ? [] : [`at most ${maximum}`]),
  ];
  const mark = required ? markup` <span class="required">required</span>` : nothing;
  return markup`<div><code>${name}</code> <span class="type">${facts.join(', ')}</span>${mark}</div> `;
}
