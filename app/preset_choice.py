"""Machine, model and quantization of the built-in engine, as every form asks for them."""

import streamlit as st

from app import forms
from app.words import Words
from runner.simulator.presets import DEVICES


def choose_preset(w: Words) -> tuple[str, str, str]:
    """(device, model, quantization), three boxes side by side; each offers what the one before leaves."""
    device_place, model_place, quant_place = st.columns(3)
    devices = forms.preset_parts()
    device = device_place.selectbox(
        w.text("Machine"), devices, forms.usual(devices), lambda d: DEVICES[d].label, key="device"
    )
    models = forms.preset_parts(device)
    model = model_place.selectbox(w.text("Model"), models, forms.usual(models), key="model")
    quants = forms.preset_parts(device, model)
    quant = quant_place.selectbox(w.text("Quantization"), quants, forms.usual(quants), key="quant")
    return device, model, quant
