import type { Dice } from '../dice.ts';

export interface InterestCategory {
  readonly id: string;
  readonly title: string;
  readonly type: string;
  readonly displayOrder: number;
  readonly interests: readonly Interest[];
}

export interface Interest {
  readonly id: string;
  readonly name: string;
  readonly displayOrder: number;
  /** Every `stride`-th member of the list is interested; null: nobody is. */
  readonly stride: number | null;
}

const categories = [
  { title: 'Product Preferences', type: 'checkboxes', interests: ['Donating', 'Volunteering', 'Événements'] },
  { title: 'How often?', type: 'radio', interests: ['Weekly', 'Monthly'] },
  { title: '言語', type: 'dropdown', interests: ['日本語', 'English', 'Українська', 'Français', 'Türkçe'] },
];

export function planCategories(dice: Dice, count: number): readonly InterestCategory[] {
  return categories.slice(0, count).map(({ title, type, interests }, displayOrder) => ({
    id: dice.hex(10),
    title,
    type,
    displayOrder,
    interests: interests.map((name, position) => ({
      id: dice.hex(10),
      name,
      displayOrder: position + 1,
      stride: 2 + displayOrder + position,
    })),
  }));
}
