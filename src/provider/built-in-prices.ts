import type { ModelPrice } from './model-price.ts';
import { parsePriceList } from './price-list.ts';
import anthropic from './prices/anthropic.json' with { type: 'json' };

/** The provider's published prices, as this version knows them. */
export function builtInPrices(): ModelPrice[] {
  return parsePriceList(anthropic, 'src/provider/prices/anthropic.json');
}
